/* nodes: 4 */
/* What a lock says goes to variables of any type, and to nothing beside them. */
#include <stdbool.h>
#include <xmp.h>
#include "check.h"
xmp_lock_t mine:[*], shared[2]:[*];

int main(void)
{
  bool took[4] = {true, true, true, true};
  char c[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  short s[4] = {9, 9, 9, 9};
  long l = -1L;
  struct { unsigned flag : 1, rest : 31; } bits = {0, 77};
  int i, me = xmpc_this_image(), *p = &i;
  xmp_sync_all(NULL);
#pragma xmp lock(mine:[me]) acquired_lock(took[0]) stat(c[0])
  CHECK(took[0] && took[1] && took[2] && took[3] && c[0] == 0 && c[1] == 1 && c[2] == 1 && c[3] == 1);
#pragma xmp lock(mine:[me]), stat(l), acquired_lock(bits.flag)
  CHECK(!bits.flag && bits.rest == 77 && l == XMP_STAT_LOCKED);
#pragma xmp unlock(mine:[me]) stat(s[1])
  CHECK(s[0] == 9 && s[1] == XMP_STAT_SUCCESS && s[2] == 9);
#pragma xmp unlock(mine:[me]) stat(*p)
  CHECK(i == XMP_STAT_UNLOCKED);
  for (i = 0; i < 20; i++) {
    bool got = false;
    while (!got) {
#pragma xmp lock(shared[1]:[0]) acquired_lock(got)
    }
#pragma xmp unlock(shared[1]:[0])
  }
  return wrong;
}
