/* nodes: 4 */
/* Block distribution, square notation: each node does its iterations, and only those. */
#include <xmp.h>
#include "check.h"
#define N 21
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double a[N], b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with t[i]

int main(void)
{
  int i, count = 0, total = 0;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    a[i] = i;
    b[i] = 2 * a[i] + 1;
    count++;
  }
  CHECK(count == (xmpc_node_num() < 3 ? 6 : 3));
#pragma xmp loop (i) on t[i] reduction(+:total)
  for (i = 0; i < N; i++) {
    CHECK(b[i] == 2 * i + 1);
    total += (int)b[i];
  }
  CHECK(total == N * N);
#pragma xmp reduction(+:count)
  CHECK(count == N);
  return wrong != 0;
}
