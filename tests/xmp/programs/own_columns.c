/* nodes: 6 */
/* `*` in an on-clause: of nodes this node's own coordinate, of a template what this node has there. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p(3,2)
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp distribute t(block,block) onto p
#pragma xmp nodes l(6)
#pragma xmp template u(0:N-1,0:N-1)
#pragma xmp distribute u(*,cyclic) onto l
int main(void)
{
  int me = xmpc_node_num(), x = me % 3, y = me / 3, s = 1;
#pragma xmp reduction (+:s) on t(:,*)
  CHECK(s == 3);
  s = me;
#pragma xmp reduction (+:s) on t(*,:)
  CHECK(s == 2 * x + 3);
  s = me;
#pragma xmp bcast (s) from t(N-1,*) on t(:,*)
  CHECK(s == 3 * y + 2);
#pragma xmp barrier on t(*,:)
  s = 1;
#pragma xmp reduction (+:s) on t(:,0)
  CHECK(s == (y == 0 ? 3 : 1));
#pragma xmp task on t(0:N/2-1,*)
  {
    CHECK(x < 2 && xmp_num_nodes() == 2);
    s = 1;
#pragma xmp reduction (+:s)
    CHECK(s == 2);
  }
#pragma xmp task on t(*,*)
  CHECK(xmp_num_nodes() == 1);
#pragma xmp task on u(*,:)
  CHECK(xmp_num_nodes() == 6);
  s = 0;
#pragma xmp loop (i) on t(i,*) reduction(+:s)
  for (int i = 0; i < N; i++) s += i;
  CHECK(s == N * (N - 1) / 2);
  return wrong != 0;
}
