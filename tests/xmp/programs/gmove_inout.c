/* nodes: 4 */
/* gmove in and out: data of nodes that do not execute. */
#include <xmp.h>
#include "check.h"
#define N 16
#pragma xmp nodes p[4]
#pragma xmp nodes low[2] = p[0:2]
#pragma xmp nodes high[2] = p[2:2]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp distribute t[block] onto low
#pragma xmp distribute u[block] onto high
int a[N], b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with u[i]
int main(void)
{
  int i, me = xmpc_node_num();
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i;
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) b[i] = 100 + i;
#pragma xmp barrier
#pragma xmp task on low
  {
#pragma xmp gmove in
    a[0:8] = b[4:8];
  }
#pragma xmp barrier
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == (i < 8 ? 104 + i : i));
#pragma xmp task on p[0:2]
  {
#pragma xmp gmove out
    b[12:4] = a[8:4];
  }
#pragma xmp barrier
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) CHECK(b[i] == (i < 12 ? 100 + i : i - 4));
  CHECK(me >= 0);
  return wrong != 0;
}
