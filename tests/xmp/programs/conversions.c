/* nodes: 2 */
/* Numbers of other types on the two sides of an assignment are converted, as C does it. */
#include <xmp.h>
#include "check.h"
#define N 6
#pragma xmp nodes p[2]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double a[N], z[4][5]:[*];
int b[N], k:[*];
float f[N];
#pragma xmp align [i] with t[i] :: a, b, f
int main(void)
{
  int i, me = xmpc_node_num(), other = 1 - me, whole[N], x = 3;
  double d = 2.75;
  z[1:2][0:3:2]:[other] = me;
  k:[other] = 7.9;
  xmp_sync_all(NULL);
  CHECK(z[1][2] == other && z[2][4] == other && z[1][1] == 0 && k == 7);
#pragma xmp gmove
  a[0:3] = 7;
#pragma xmp gmove
  a[3:3] = x;
#pragma xmp gmove
  b[:] = d;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == (i < 3 ? 7 : 3) && b[i] == 2);
#pragma xmp array on t[0:N]
  f[0:N] = a[0:N] / 2;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(f[i] == (i < 3 ? 3.5f : 1.5f));
#pragma xmp gmove
  d = b[4];
  CHECK(d == 2);
  whole[0:N] = d * 2.3;
  CHECK(whole[5] == 4);
  return wrong != 0;
}
