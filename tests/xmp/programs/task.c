/* nodes: 4 */
/* Tasks on nodes and on templates, tasks, subsets of nodes, nodes of the executing set, collectives inside. */
#include <xmp.h>
#include "check.h"
#define N 8
#pragma xmp nodes p[4]
#pragma xmp nodes q(2) = p(2:3)
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int main(void)
{
  int me = xmpc_all_node_num(), x = -1, here = 0;
#pragma xmp task on p[1:2]
  {
    int s = 1;
    here = 1;
    CHECK(xmp_num_nodes() == 2 && xmpc_node_num() == me - 1);
    CHECK(me == 1 || me == 2);
#pragma xmp nodes r[2] = *
#pragma xmp reduction(+:s)
    CHECK(s == 2);
    s = me;
#pragma xmp bcast (s) from r[1]
    CHECK(s == 2);
#pragma xmp barrier
  }
  CHECK(here == (me == 1 || me == 2));
  CHECK(xmp_num_nodes() == 4);
#pragma xmp task on t[5]
  x = me;
  CHECK(x == (me == 2 ? 2 : -1));
#pragma xmp tasks
  {
#pragma xmp task on p(1)
    x = 10;
#pragma xmp task on p(2:4)
    { x = 1;
#pragma xmp reduction(+:x)
      CHECK(x == 3);
    }
  }
  CHECK(x == (me == 0 ? 10 : 3));
#pragma xmp task on q nocomm
  x = 99;
  CHECK((x == 99) == (me == 1 || me == 2));
#pragma xmp task on p[0]
  if (me != 0) wrong++;
  return wrong != 0;
}
