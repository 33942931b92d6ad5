/* nodes: 4 units: units_other.c */
/* Several units: arrays, coarrays, nodes and templates of a header; a function without XMP that our parser need not know. */
#include <xmp.h>
#include "units.h"
#include "check.h"
double shared[SIZE];
int box[4]:[*];
static int local_only(int x) { int f(int y) { return y + 1; } return f(x) ?: 7; }
int main(void)
{
  double total;
  fill_shared(3.0);
  total = sum_shared();
  CHECK(total == 3.0 * SIZE * (SIZE - 1) / 2);
#pragma xmp loop on t[i]
  for (int i = 1; i < SIZE - 1; i++) CHECK(shared[i + 1] - shared[i - 1] == 6.0);
  send_box(xmpc_node_num());
  xmp_sync_all(NULL);
  CHECK(box[1] == (xmpc_node_num() + 3) % 4);
  CHECK(local_only(1) == 2);
  CHECK(other_private() == 4);
  return wrong != 0;
}
