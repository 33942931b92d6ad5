/* nodes: 4 */
/* post and wait, locks, atomics. */
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p[4]
int box:[*], counter:[*], flag:[*];
xmp_lock_t lk:[*];
int main(void)
{
  int me = xmpc_node_num(), next = (me + 1) % 4, v = -1, i;
  box:[next] = me + 10;
#pragma xmp post (p[next], 3)
#pragma xmp wait (p[(me + 3) % 4], 3)
  CHECK(box == (me + 3) % 4 + 10);
#pragma xmp post (p(next + 1), 4)
#pragma xmp wait
  xmp_sync_all(NULL);
  for (i = 0; i < 25; i++) {
#pragma xmp lock(lk:[0])
    counter:[0] = counter:[0] + 1;
#pragma xmp unlock(lk:[0])
  }
  xmp_sync_all(NULL);
  CHECK(counter:[0] == 100);
  if (me == 2) xmp_atomic_define(flag:[1], 5);
  xmp_sync_all(NULL);
  xmp_atomic_ref(&v, flag:[1]);
  CHECK(v == 5);
  if (me == 1) CHECK(flag == 5);
  return wrong != 0;
}
