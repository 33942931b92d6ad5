/* nodes: 4 */
/* A loop, or a task, that a node leaves before its end. */
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
static int first_of(int what)
{
  int i;
  for (i = 0; i < 3; i++) {
#pragma xmp task on p[0:2]
    {
      if (xmp_num_nodes() != 2) return -1;
#pragma xmp task on p[1] nocomm
      {
        switch (what) {
        case 1: continue;
        case 2: break;
        default: return xmp_num_nodes() * 10 + i;
        }
        break;
      }
    }
  }
  return xmp_num_nodes() * 100 + i;
}
void checked(void)
{
  int me = xmpc_node_num(), n = 1;
  CHECK(first_of(1) == 403 && first_of(2) == (me == 1 ? 400 : 403) && first_of(3) == (me == 1 ? 20 : 403));
  CHECK(xmp_num_nodes() == 4 && xmpc_node_num() == me);
#pragma xmp reduction (+:n)
  CHECK(n == 4);
}
int main(void)
{
  int i, n = 0, me = xmpc_node_num();
  checked();
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
