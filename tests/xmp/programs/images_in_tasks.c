/* nodes: 4 */
/* Images are counted among all nodes, in a task, too; nodes among those that execute. A task with nocomm is a plain if. */
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p[4]
#pragma xmp nodes q[2] = p[2:2]
int x:[*], y[3]:[*];
#pragma xmp coarray on q :: z
int z;
#pragma xmp template t[8]
#pragma xmp distribute t[block] onto p
#pragma xmp template half[8]
#pragma xmp distribute half[block] onto q
int a[8];
#pragma xmp align a[i] with t[i]

int main(void)
{
  int me = xmpc_all_node_num(), i, s = 0, pair[1], status = 3;
#pragma xmp loop on t[i]
  for (i = 0; i < 8; i++) a[i] = i;
#pragma xmp barrier
#pragma xmp task on p[1:3]
  {
    int next = me == 3 ? 1 : me + 1;
    CHECK(xmpc_node_num() == me - 1 && xmp_num_nodes() == 3);
    CHECK(xmpc_this_image() == me && xmp_num_images() == 4);
    x:[next] = 10 * me;
    y[0:2]:[0] = me;
    xmp_sync_all(&status);
    CHECK(status == 0 && x == 10 * (me == 1 ? 3 : me - 1));
    if (me == 1) { pair[0] = 3; xmp_sync_images(1, pair, NULL); }
    if (me == 3) xmp_sync_image(1, NULL);
  }
#pragma xmp barrier
  CHECK(me != 0 || (y[0] > 0 && y[1] > 0 && y[2] == 0));
#pragma xmp task on q
  {
    z:[1 - xmpc_node_num()] = me;
    xmp_sync_all(NULL);
    CHECK(z == (me == 2 ? 3 : 2));
  }
  /* Of a plain if: who executes stays as it was; what its own nodes do together they can. */
#pragma xmp task on p[2:2] nocomm
  {
    CHECK(xmp_num_nodes() == 4 && xmpc_node_num() == me);
    s = 1;
#pragma xmp reduction(+:s) on q
    CHECK(s == 2);
#pragma xmp barrier on q
    s = 0;
#pragma xmp loop on half[i] reduction(+:s)
    for (i = 0; i < 8; i++) s += i;
    CHECK(s == 28);
#pragma xmp gmove in
    s = a[1];
    CHECK(s == 1);
#pragma xmp task on p[3]
    s = 5;
  }
  CHECK(s == (me == 3 ? 5 : me == 2 ? 1 : 0));
  return wrong != 0;
}
