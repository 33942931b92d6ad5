/* Nodes with several stars. */
#include "check.h"

int main(int argc, char **argv) {
  kxmp_nodes *p = NULL;
  long stars[] = { KXMP_STAR, KXMP_STAR };
  int x, y;
  kxmp_start(&argc, &argv);
  p = kxmp_nodes_make(&p, HERE, "p", 2, stars, KXMP_ENTIRE, executing());
  CHECK(xmp_nodes_size(p, 1, &x) == 0 && xmp_nodes_size(p, 2, &y) == 0);
  if (xmpc_all_node_num() == 0) printf("%d x %d\n", x, y);
  return 0;
}
