/* nodes: 4 */
/* A loop that a node leaves before its end. */
#include <xmp.h>
#include "check.h"
#define N 16
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N];
#pragma xmp align a[i] with t[i]
static int find(int what)
{
  int i;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++)
    if (a[i] == what) return i;
  return -1;
}
int main(void)
{
  int i, n = 0, me = xmpc_node_num();
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i % 4;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    if (a[i] == 2) break;
    n++;
  }
  CHECK(n == 2 && find(3) == 4 * me + 3 && find(9) == -1);
  return wrong != 0;
}
