/* nodes: 4 */
/* Directives that name several things at once, in both notations. */
#include <xmp.h>
#include "check.h"
#define N 8
#pragma xmp nodes p(4), q[4], g(2,2)
#pragma xmp nodes(2,*) :: h, k
#pragma xmp template t(0:N-1), u[N]
#pragma xmp template(0:N-1, 0:N-1) :: m, n
#pragma xmp distribute t(block), u[cyclic] onto p
#pragma xmp distribute(block, cyclic) onto g :: m, n
int a[N], b[N], c[N][N], d[N][N], e[N], f[N];
#pragma xmp align a[i], b[i] with t(i)
#pragma xmp align [i][j] with m(j,i) :: c, d
#pragma xmp align e[:], f[:] with u[:]
#pragma xmp shadow a[1], b[0:1]
#pragma xmp shadow [0][1] :: c
#pragma xmp static_desc :: a, b
int main(void)
{
  int i, j, s = 0, v = 0;
#pragma xmp loop (i) on t(i)
  for (i = 0; i < N; i++) a[i] = b[i] = i;
#pragma xmp loop [i] on u[i]
  for (i = 0; i < N; i++) e[i] = f[i] = i;
#pragma xmp loop (j, i) on m(j, i)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) c[i][j] = d[i][j] = i * j;
#pragma xmp loop [i][j] on m(j,i) reduction(+:s, v)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) s += c[i][j], v += d[i][j];
  CHECK(s == v && s == (N * (N - 1) / 2) * (N * (N - 1) / 2));
#pragma xmp reflect (a, b, c)
#pragma xmp loop on t(i) reduction(+:s) reduction(max:v)
  for (i = 0; i < N - 1; i++) {
    s += a[i + 1] - b[i];
    if (b[i + 1] > v) v = b[i + 1];
  }
  CHECK(v == 784 && s == 784 + N - 1);
#pragma xmp bcast (s, v) from p(1)
#pragma xmp reduction(max: s, v) on q
  return wrong != 0;
}
