/* nodes: 4 */
/* Sections between coarrays of different types: numbers are converted, as C does it. */
#include <xmp.h>
#include "check.h"
#define N 8
int a[N]:[*];
double d[N]:[*];
float f[2][N]:[*];
char c[N]:[*];

int main(void)
{
  int me = xmpc_this_image(), n = xmp_num_images(), next = (me + 1) % n, before = (me + n - 1) % n, i;
  for (i = 0; i < N; i++) { a[i] = 10 * me + i; d[i] = me + i + .75; c[i] = 0; f[0][i] = f[1][i] = -1; }
  xmp_sync_all(NULL);
  if (me == 0) {
    d[1:2]:[2] = a[1:2]:[3];
    c[0:4:2]:[1] = d[0:4]:[0];
    f[1][:]:[3] = a[:]:[1];
  }
  xmp_sync_all(NULL);
  CHECK(d[0] == me + .75 && d[1] == (me == 2 ? 31 : me + 1.75) && d[2] == (me == 2 ? 32 : me + 2.75));
  for (i = 0; i < N; i++) CHECK(c[i] == (me == 1 && i % 2 == 0 ? i / 2 : 0));
  for (i = 0; i < N; i++) CHECK(f[0][i] == -1 && f[1][i] == (me == 3 ? 10 + i : -1));
  xmp_sync_all(NULL);
  /* One element to all of a section. */
  d[:]:[next] = a[3]:[next];
  xmp_sync_all(NULL);
  for (i = 0; i < N; i++) CHECK(d[i] == 10 * me + 3);
  CHECK(a[0]:[before] == 10 * before);
  return wrong;
}
