/* nodes: 3 */
/* Cyclic and block-cyclic distributions: the local part is not what the subscript says. */
#include <xmp.h>
#include "check.h"
#define N 20
#pragma xmp nodes p[3]
#pragma xmp template t[N]
#pragma xmp template u(1:N)
#pragma xmp distribute t[cyclic] onto p
#pragma xmp distribute u(cyclic(4)) onto p
int a[N];
long b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with u(i+1)

int main(void)
{
  int sum = 0, odd = 0;
  int me = xmpc_node_num();
#pragma xmp loop on t[i]
  for (int i = 0; i < N; i++) {
    CHECK(i % 3 == me);
    a[i] = i * i;
  }
#pragma xmp loop on u(i+1)
  for (int i = 0; i < N; i++) {
    CHECK(i / 4 % 3 == me);
    b[i] = 7 * i;
  }
#pragma xmp loop on t[i] reduction(+:sum)
  for (int i = N - 1; i >= 0; i--) {
    CHECK(a[i] == i * i);
    sum += a[i];
  }
  CHECK(sum == 2470);
#pragma xmp loop (i) on u(i+1) reduction(+:odd)
  for (int i = 1; i < N; i += 2) {
    CHECK(b[i] == 7 * i);
    odd++;
  }
  CHECK(odd == 10);
  return wrong != 0;
}
