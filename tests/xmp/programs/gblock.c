/* nodes: 4 */
/* Irregular blocks, also fixed later; empty parts; block(n). */
#include <xmp.h>
#include "check.h"
#define N 17
int m[4] = {5, 0, 9, 3}, later[4];
#pragma xmp nodes p(4)
#pragma xmp template t(0:N-1)
#pragma xmp template u(:)
#pragma xmp template b(0:N-1)
#pragma xmp distribute t(gblock(m)) onto p
#pragma xmp distribute u(gblock(*)) onto p
#pragma xmp distribute b(block(7)) onto p
int a[N], *d, c[N];
#pragma xmp align a[i] with t(i)
#pragma xmp align d[i] with u(i)
#pragma xmp align c[i] with b(i)
#pragma xmp shadow a[1]
int main(void)
{
  int i, n = 0, whole[N];
#pragma xmp loop (i) on t(i)
  for (i = 0; i < N; i++) { a[i] = i; n++; }
  CHECK(n == m[xmpc_node_num()]);
#pragma xmp reflect (a)
#pragma xmp loop (i) on t(i)
  for (i = 1; i < N - 1; i++) CHECK(a[i - 1] + a[i + 1] == 2 * i);
  later[0] = 1; later[1] = 2; later[2] = 3; later[3] = 4;
#pragma xmp template_fix(gblock(later)) u(0:9)
  d = (int *)xmp_malloc(xmp_desc_of(d), 10);
  n = 0;
#pragma xmp loop (i) on u(i)
  for (i = 0; i < 10; i++) { d[i] = i * i; n++; }
  CHECK(n == xmp_node_num());
#pragma xmp gmove
  whole[0:10] = d[0:10];
  for (i = 0; i < 10; i++) CHECK(whole[i] == i * i);
#pragma xmp gmove
  c[:] = a[:];
  n = 0;
#pragma xmp loop (i) on b(i)
  for (i = 0; i < N; i++) { CHECK(c[i] == i); n++; }
  CHECK(n == (xmpc_node_num() < 2 ? 7 : xmpc_node_num() == 2 ? 3 : 0));
  return wrong != 0;
}
