/* nodes: 4 */
/* Coarrays of numbers, rows, structures and two codimensions: read and written whole, by sections, by members, in expressions. */
#include <xmp.h>
#include "check.h"
#define N 10
#pragma xmp nodes p[*]
double a[N][N]:[*], b[N]:[*], scalar:[*];
int grid[4]:[2][*];
static int own = 3, counter:[*] = 0, plain[N];
struct s { char name[8]; float f; int dim[2][3]; } st[4]:[*];
char text[16]:[*];
long *ptr;

static void exchange(double (*x)[N], int n) { for (int i = 0; i < n; i++) x[i][0] += 1; }

int main(void)
{
  static double inner[5]:[*];
  int me = xmpc_this_image(), n = xmp_num_images(), i, j, next = (me + 1) % n, prev = (me + n - 1) % n;
  double l[N][N], t;
  int status;
  for (i = 0; i < N; i++) { b[i] = me + i * .5; for (j = 0; j < N; j++) a[i][j] = me * 1000 + i * 10 + j; }
  for (i = 0; i < 5; i++) inner[i] = -me;
  scalar = me;
  xmp_sync_all(&status);
  t = scalar:[next] + scalar:[prev];
  CHECK(t == next + prev);
  t = a[3][4]:[next] * 2 - b[2]:[prev];
  CHECK(t == 2 * (next * 1000 + 34) - (prev + 1));
  l[0:5][0:5] = a[5:5][5:5]:[next];
  CHECK(l[0][0] == next * 1000 + 55 && l[4][4] == next * 1000 + 99);
  l[2][:] = a[:][3]:[prev];
  CHECK(l[2][7] == prev * 1000 + 73);
  l[3][0:5] = inner[:]:[next];
  CHECK(l[3][4] == -next);
  xmp_sync_all(NULL);
  a[0][:]:[next] = b[:];
  a[1:3][0]:[next] = 9.0;
  xmp_sync_memory(NULL);
  xmp_sync_all(NULL);
  CHECK(a[0][4] == prev + 2 && a[1][0] == 9 && a[3][0] == 9 && a[4][0] == me * 1000 + 40);
  exchange(a, N);
  CHECK(a[1][0] == 10);
  /* the whole of it */
  xmp_sync_all(NULL);
  if (me == 0) for (i = 0; i < n; i++) { b[:]:[i] = 100 + i; }
  xmp_sync_all(NULL);
  CHECK(b[0] == 100 + me && b[N - 1] == 100 + me);
  l[4][:] = b[:]:[next] + b[:]:[prev];
  CHECK(l[4][3] == 200 + next + prev);
  /* two codimensions */
  grid[0:4] = me;
  xmp_sync_all(NULL);
  if (n == 4) { i = grid[1]:[1][0]; j = grid[2]:[0][1]; CHECK((i == 1 && j == 2) || (i == 2 && j == 1)); }
  xmp_sync_all(NULL);
  /* structures */
  st[me % 4].f = me + .25f;
  st[1].dim[1][2] = me * 7;
  xmp_sync_all(NULL);
  { float f = st[next % 4].f:[next]; int d = st[1].dim[1][2]:[prev]; struct s whole; CHECK(f == next + .25f && d == prev * 7);
    whole = st[1]:[next]; CHECK(whole.dim[1][2] == next * 7);
    whole.dim[0][0] = 77 + me; st[3]:[next] = whole; }
  xmp_sync_all(NULL);
  CHECK(st[3].dim[0][0] == 77 + prev);
  st[2].name[0]:[next] = 'a' + me;
  st[2].dim[0][1]:[next]++;
  xmp_sync_all(NULL);
  CHECK(st[2].name[0] == 'a' + prev && st[2].dim[0][1] == 1);
  xmp_sync_all(NULL);
  st[2].dim[0:2][0:3]:[next] = me;
  xmp_sync_all(NULL);
  CHECK(st[2].dim[0][0] == prev && st[2].dim[1][2] == prev && st[2].name[0] == 'a' + prev);
  text[0:5]:[next] = "hello"[0:5];
  own++;
  (void)plain; (void)ptr;
  if (me == 0) counter:[0] = 0;
  xmp_sync_all(NULL);
  for (i = 0; i < n; i++) {
    if (i == me) counter:[0] += me + 1;
    xmp_sync_all(NULL);
  }
  CHECK(me || counter == n * (n + 1) / 2);
  return wrong != 0;
}
