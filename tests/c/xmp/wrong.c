/* Mistakes: each is told with its place, here `wrong.c:10` and so on. */
#include "check.h"

static int is(char **argv, const char *name) { return strcmp(argv[1], name) == 0; }

int main(int argc, char **argv) {
  kxmp_nodes *p = NULL, *q = NULL;
  kxmp_template *t = NULL, *open = NULL;
  kxmp_array a, b, later;
  kxmp_coarray *x = NULL, *l = NULL;
  kxmp_format block = { KXMP_BLOCK, 0, NULL, 0 };
  kxmp_align align = { 0, 0 };
  kxmp_width shadow = { 1, 1, 0 }, wide = { 2, 2, 0 };
  kxmp_level level = { 0, 0, 0, 9, 1 };
  kxmp_nest nest;
  long star = KXMP_STAR, odd[] = { 3, 5 }, lo = 0, hi = 9, size = 10, more = 11, two[] = { 10, 10 }, image = 2, other = 1;
  double value = 0, matrix[10][10];
  kxmp_side left, right;
  kxmp_part part = KXMP_SECTION(0, 4, 1), three = KXMP_SECTION(0, 3, 1), past = KXMP_SECTION(8, 5, 1);
  void *memory;
  kxmp_start(&argc, &argv);
  p = kxmp_nodes_make(&p, "wrong.c:9", "p", 1, &star, KXMP_ENTIRE, executing());
  t = kxmp_template_make(&t, "wrong.c:9", "t", 1, &lo, &hi);
  open = kxmp_template_make(&open, "wrong.c:9", "t", 1, NULL, NULL);
  kxmp_distribute("wrong.c:9", t, 1, &block, p);
  kxmp_distribute("wrong.c:9", open, 1, &block, p);
  memset(&a, 0, sizeof a);
  kxmp_array_make(&a, "wrong.c:9", "a", KXMP_DOUBLE, sizeof(double), 1, &size, t, &align, &shadow, KXMP_OWN, NULL);
  kxmp_coarray_make(&x, &memory, "wrong.c:9", "x", KXMP_DOUBLE, sizeof(double), 1, &size, 1, &star, NULL);
  kxmp_coarray_make(&l, &memory, "wrong.c:9", "l", KXMP_OTHER, sizeof(xmp_lock_t), 0, NULL, 1, &star, NULL);
  memset(&left, 0, sizeof left);
  left.array = &a;
  left.element = sizeof(double);
  left.type = KXMP_DOUBLE;
  left.ndims = 1;
  left.part[0] = part;
  right = left;
  if (is(argv, "nodes")) q = kxmp_nodes_make(&q, "wrong.c:10", "p", 2, odd, KXMP_ENTIRE, executing());
  if (is(argv, "subscript")) kxmp_barrier("wrong.c:11", at1(p, at(7)));
  if (is(argv, "template")) kxmp_nest_begin(&nest, "wrong.c:12", at1(open, any()), 1, &level, NULL);
  if (is(argv, "width")) kxmp_reflect("wrong.c:13", &a, &wide, KXMP_CORNERS, KXMP_SYNC);
  if (is(argv, "ranges")) {
    right.array = NULL;
    right.base = matrix;
    right.ndims = 2;
    right.extent = two;
    right.part[1] = part;
    kxmp_gmove("wrong.c:14", KXMP_COLLECTIVE, &left, &right, KXMP_SYNC);
  }
  if (is(argv, "lengths")) {
    right.part[0] = three;
    kxmp_gmove("wrong.c:15", KXMP_COLLECTIVE, &left, &right, KXMP_SYNC);
  }
  if (is(argv, "task")) {
    kxmp_task task;
    if (kxmp_task_begin(&task, "wrong.c:21", at1(p, at(0)), 0)) kxmp_reflect("wrong.c:21", &a, NULL, KXMP_CORNERS, KXMP_SYNC);
    kxmp_task_end(&task);
  }
  if (is(argv, "kind")) {
    int dimensions;
    if (xmp_array_ndims(t, &dimensions) != 0) exit(1);
  }
  if (is(argv, "type")) kxmp_reduction("wrong.c:16", executing(), KXMP_BAND, KXMP_DOUBLE, &value, 1, KXMP_SYNC);
  right.array = NULL;
  right.base = &value;
  right.ndims = 0;
  if (is(argv, "image")) kxmp_coarray_put("wrong.c:17", x, &image, &part, &right);
  if (is(argv, "section")) kxmp_coarray_put("wrong.c:18", x, &other, &past, &right);
  if (is(argv, "align"))
    kxmp_array_make(&b, "wrong.c:19", "b", KXMP_DOUBLE, sizeof(double), 1, &more, t, &align, NULL, KXMP_OWN, NULL);
  memset(&later, 0, sizeof later);
  kxmp_array_await(&later);
  if (later.map == NULL || later.map->dim[6].extent != 0 || later.base != NULL) exit(2);
  kxmp_array_make(&later, "wrong.c:9", "later", KXMP_DOUBLE, sizeof(double), 1, NULL, t, &align, NULL, KXMP_LATER, NULL);
  if (is(argv, "memory")) kxmp_no_memory("wrong.c:22", &later);
  if (is(argv, "unmade")) kxmp_nest_begin(&nest, "wrong.c:23", at1(NULL, any()), 1, &level, NULL);
  if (is(argv, "unlock")) kxmp_unlock("wrong.c:20", l, &other, NULL, NULL);
  return 0;
}
