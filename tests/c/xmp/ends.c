/* How a program ends. */
#include "check.h"

int main(int argc, char **argv) {
  kxmp_nodes *p = NULL;
  long star = KXMP_STAR;
  kxmp_task k;
  kxmp_start(&argc, &argv);
  p = kxmp_nodes_make(&p, HERE, "p", 1, &star, KXMP_ENTIRE, executing());
  printf("printed before the end\n");
  kxmp_barrier(HERE, executing());
  if (strcmp(argv[1], "return") == 0) return 3;
  if (strcmp(argv[1], "exit-256") == 0) exit(256);
  if (strcmp(argv[1], "xmp_exit") == 0) xmp_exit(7);
  if (strcmp(argv[1], "xmp_exit-well") == 0) xmp_exit(0);
  if (strcmp(argv[1], "exit-in-task") == 0) {
    if (kxmp_task_begin(&k, HERE, at1(p, at(2)), 0)) exit(5);
    kxmp_task_end(&k);
    kxmp_barrier(HERE, executing());
  }
  return 0;
}
