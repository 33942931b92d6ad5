/* nodes: 8 */
/* Three dimensions, cyclic in each way, with gmove between distributions and reflect with corners. */
#include <xmp.h>
#include <stdlib.h>
#include "check.h"
#define NX 9
#define NY 10
#define NZ 11
#pragma xmp nodes p(2,2,2)
#pragma xmp nodes q(8)
#pragma xmp template t(0:NX-1,0:NY-1,0:NZ-1)
#pragma xmp template u(0:NX-1,0:NY-1,0:NZ-1)
#pragma xmp distribute t(block,block,block) onto p
#pragma xmp distribute u(cyclic(2),cyclic,cyclic(3)) onto p
#pragma xmp template l(0:NZ-1)
#pragma xmp distribute l(cyclic(2)) onto q
float a[NZ][NY][NX], b[NZ][NY][NX];
int c[NZ][NY];
#pragma xmp align a[k][j][i] with t(i,j,k)
#pragma xmp align b[k][j][i] with u(i,j,k)
#pragma xmp align c[k][*] with l(k)
#pragma xmp shadow a[1][1][1]
int main(void)
{
  int i, j, k, bad = 0;
#pragma xmp loop (i,j,k) on t(i,j,k)
  for (k = 0; k < NZ; k++) for (j = 0; j < NY; j++) for (i = 0; i < NX; i++) a[k][j][i] = 10000 * k + 100 * j + i;
#pragma xmp gmove
  b[:][:][:] = a[:][:][:];
#pragma xmp loop (i,j,k) on u(i,j,k) reduction(+:bad)
  for (k = 0; k < NZ; k++) for (j = 0; j < NY; j++) for (i = 0; i < NX; i++) bad += b[k][j][i] != 10000 * k + 100 * j + i;
  CHECK(bad == 0);
#pragma xmp reflect (a) width(/periodic/1,/periodic/1,/periodic/1)
#pragma xmp loop (i,j,k) on t(i,j,k) reduction(+:bad)
  for (k = 0; k < NZ; k++) for (j = 0; j < NY; j++) for (i = 0; i < NX; i++) {
    int dk = (k + 1) % NZ, dj = (j + NY - 1) % NY, di = (i + 1) % NX;
    bad += a[k + 1][j - 1][i + 1] != 10000 * dk + 100 * dj + di;
    bad += a[k][j - 1][i] != 10000 * k + 100 * dj + i;
  }
  CHECK(bad == 0);
#pragma xmp gmove
  b[1:5][2][0:4:2] = a[5:5][3][4:4];
#pragma xmp loop (i,j,k) on u(i,j,k) reduction(+:bad)
  for (k = 0; k < NZ; k++) for (j = 0; j < NY; j++) for (i = 0; i < NX; i++) {
    int hit = k >= 1 && k < 6 && j == 2 && i < 8 && i % 2 == 0;
    bad += b[k][j][i] != (hit ? 10000 * (k + 4) + 300 + 4 + i / 2 : 10000 * k + 100 * j + i);
  }
  CHECK(bad == 0);
#pragma xmp loop on l(k)
  for (k = 0; k < NZ; k++) for (j = 0; j < NY; j++) c[k][j] = k * j;
#pragma xmp gmove
  c[3][:] = c[4][:];
#pragma xmp loop on l(k)
  for (k = 0; k < NZ; k++) CHECK(c[k][9] == (k == 3 ? 36 : 9 * k));
  if (bad) exit(1);
  return wrong != 0;
}
