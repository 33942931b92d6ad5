/* nodes: 4 */
/* The local view: a heat equation on a ring of coarrays, with events; a coarray of structures; pointers into coarrays; arithmetic on sections. */
#include <xmp.h>
#include <string.h>
#include "check.h"
#define N 8
#define STEPS 10
#pragma xmp nodes p(*)
static double u[2][N + 2]:[*];
float grid[3][4]:[*], extra[4];
unsigned char raw[16]:[*];
struct s { int n; double v[3]; } st:[*], many[4]:[*];
static double reference[2][4 * N];
static double first(const double *q) { return q[1]; }
int main(void)
{
  int me = xmpc_this_image(), n = xmp_num_images(), left = (me + n - 1) % n, right = (me + 1) % n, i, s, now = 0;
  struct s copy;
  double part[3];
  for (i = 1; i <= N; i++) u[0][i] = me * N + i;
  for (i = 0; i < n * N; i++) reference[0][i] = i + 1;
  for (s = 0; s < STEPS; s++) {
    u[now][N + 1]:[left] = u[now][1];
    u[now][0]:[right] = u[now][N];
#pragma xmp post (p(left + 1), 1)
#pragma xmp post (p(right + 1), 2)
#pragma xmp wait (p(right + 1), 1)
#pragma xmp wait (p(left + 1), 2)
    for (i = 1; i <= N; i++) u[1 - now][i] = (u[now][i - 1] + u[now][i] + u[now][i + 1]) / 3;
    for (i = 0; i < n * N; i++)
      reference[1 - now][i] = (reference[now][(i + n * N - 1) % (n * N)] + reference[now][i] + reference[now][(i + 1) % (n * N)]) / 3;
    now = 1 - now;
    xmp_sync_all(NULL);
  }
  for (i = 1; i <= N; i++) CHECK(u[now][i] == reference[now][me * N + i - 1]);
  CHECK(first(u[now]) == u[now][1] && first(&u[now][0]) == u[now][1]);
  st.n = me;
  for (i = 0; i < 3; i++) st.v[i] = 10 * me + i;
  many[2] = st;
  memset(raw, me, sizeof raw);
  for (i = 0; i < 12; i++) grid[i / 4][i % 4] = me + i;
  xmp_sync_all(NULL);
  copy = st:[right];
  CHECK(copy.n == right && copy.v[2] == 10 * right + 2);
  CHECK(many[2]:[left].v[1] == 10 * left + 1);
  CHECK(raw[3]:[right] == right);
  extra[0:4] = grid[1][0:4]:[right] + grid[2][0:4];
  for (i = 0; i < 4; i++) CHECK(extra[i] == right + 4 + i + me + 8 + i);
  part[0:3] = st.v[0:3] * 2;
  CHECK(part[1] == 2 * (10 * me + 1));
  xmp_sync_all(NULL);
  grid[0][0:4]:[right] = grid[1][0:4] * 2 + 1;
  many[0]:[right].n = 77 + me;
  xmp_sync_all(NULL);
  for (i = 0; i < 4; i++) CHECK(grid[0][i] == 2 * (left + 4 + i) + 1);
  CHECK(many[0].n == 77 + left);
  xmp_sync_images_all(NULL);
  return wrong != 0;
}
