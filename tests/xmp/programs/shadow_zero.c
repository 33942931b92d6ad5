/* nodes: 4 */
/* Shadows of no width, alone and beside others, in dimensions that are spread and that are not. */
#include <xmp.h>
#include "check.h"
#define N 12
#define Z 0
#pragma xmp nodes p[4]
#pragma xmp nodes g[2][2]
#pragma xmp template t[N]
#pragma xmp template s[N][N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute s[block][cyclic] onto g
int a[N], b[N], c[N], m[N][N], w[N][5], v[N][4], q[N];
#pragma xmp align [i] with t[i] :: a, b, c, q
#pragma xmp align m[i][j] with s[i][j]
#pragma xmp align w[i][*] with t[i]
#pragma xmp align v[i][*] with t[i]
#pragma xmp shadow a[0]
#pragma xmp shadow b[0:1]
#pragma xmp shadow c[Z:Z]
#pragma xmp shadow m[*][0]
#pragma xmp shadow w[1][0]
#pragma xmp shadow v[0][2:1]
#pragma xmp shadow q[1:0]
int main(void)
{
  int i, j, lo = -1, hi = -1, low = xmpc_node_num() * 3;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    a[i] = b[i] = c[i] = q[i] = i + 1;
    for (j = 0; j < 5; j++) w[i][j] = 10 * i + j;
    for (j = 0; j < 4; j++) v[i][j] = 10 * i + j;
  }
#pragma xmp loop (i,j) on s[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) m[i][j] = 100 * i + j;
#pragma xmp reflect (a, b, c, q)
#pragma xmp reflect (a) width(0)
#pragma xmp reflect (a, c) width(/periodic/0)
#pragma xmp reflect (b) width(0:1)
#pragma xmp reflect (m)
#pragma xmp reflect (w, v) orthogonal
#pragma xmp reflect (w) width(1, 0)
#pragma xmp reflect (v) width(0, /periodic/1)
#pragma xmp reflect_init (a)
#pragma xmp reflect_do (a)
#pragma xmp reduce_shadow (a)
#pragma xmp reflect (c) async(3)
#pragma xmp wait_async (3)
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    CHECK(a[i] == i + 1 && c[i] == i + 1);
    CHECK(i == N - 1 || b[i + 1] == i + 2);
    CHECK(i == 0 || q[i - 1] == i);
    CHECK(i == 0 || i > low || w[i - 1][4] == 10 * i - 6);
    CHECK(v[i][-1] == 10 * i + 3 && v[i][4] == 10 * i);
  }
  for (i = 0; i < N; i++) {
#pragma xmp loop on s[*][j]
    for (j = 0; j < N; j++) CHECK(m[i][j] == 100 * i + j);
  }
  CHECK(xmp_array_lshadow(xmp_desc_of(b), 1, &lo) == 0 && xmp_array_ushadow(xmp_desc_of(b), 1, &hi) == 0);
  CHECK(lo == 0 && hi == 1);
  CHECK(xmp_array_lshadow(xmp_desc_of(a), 1, &lo) == 0 && xmp_array_ushadow(xmp_desc_of(a), 1, &hi) == 0);
  CHECK(lo == 0 && hi == 0);
#pragma xmp gmove
  a[:] = b[:];
#pragma xmp loop on t[i] expand(0)
  for (i = 0; i < N; i++) CHECK(a[i] == i + 1);
#pragma xmp loop on t[i] margin(0:1)
  for (i = 0; i < N - 1; i++) a[i] = 0;
  return wrong != 0;
}
