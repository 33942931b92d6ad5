/* nodes, subsets, tasks, barrier, reduction, bcast; the inquiry functions of nodes. */
#include "check.h"
#include <complex.h>

static kxmp_nodes *p, *q, *line;

static void initialise(void) {
  static kxmp_nodes *slot_p, *slot_line;
  long one[] = { KXMP_STAR }, two[] = { 2, KXMP_STAR };
  p = kxmp_nodes_make(&slot_p, HERE, "p", 1, one, KXMP_ENTIRE, executing());
  if (xmp_all_num_nodes() % 2 == 0)
    q = kxmp_nodes_make(&slot_line, HERE, "q", 2, two, KXMP_ENTIRE, executing());
  (void)line;
}

__attribute__((constructor)) static void unit(void) { kxmp_unit(initialise); }

static void sets(void) {
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), value, index, size, attr;
  long sum = me;
  double most = me * 1.5;
  CHECK(xmp_node_num() == me + 1 && xmp_num_nodes() == n);
  kxmp_barrier(HERE, executing());
  kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_LONG, &sum, 1, KXMP_SYNC);
  CHECK(sum == (long)n * (n - 1) / 2);
  kxmp_reduction(HERE, whole(p), KXMP_MAX, KXMP_DOUBLE, &most, 1, KXMP_SYNC);
  CHECK(most == (n - 1) * 1.5);
  value = me + 100;
  kxmp_bcast(HERE, whole(p), NULL, &value, sizeof value, KXMP_SYNC);
  CHECK(value == 100);
  {
    kxmp_ref last = at1(p, at(n - 1));
    value = me + 100;
    kxmp_bcast(HERE, whole(p), &last, &value, sizeof value, KXMP_SYNC);
    CHECK(value == 100 + n - 1);
  }
  CHECK(xmp_nodes_ndims(p, &size) == 0 && size == 1);
  CHECK(xmp_nodes_index(p, 1, &index) == 0 && index == me + 1);
  CHECK(xmpc_nodes_index(p, 1, &index) == 0 && index == me);
  CHECK(xmp_nodes_size(p, 1, &size) == 0 && size == n);
  CHECK(xmp_nodes_attr(p, &attr) == 0 && attr == XMP_ENTIRE_NODES);
  CHECK(xmp_nodes_rank(p, &index) == 0 && index == me + 1);
}

static void grids(void) {
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), x = me % 2, y = me / 2, sum, index;
  static kxmp_nodes *slot_row;
  kxmp_nodes *row, *again;
  long two[] = { 2 };
  if (!q) return;
  CHECK(xmp_nodes_index(q, 1, &index) == 0 && index == x + 1);
  CHECK(xmp_nodes_index(q, 2, &index) == 0 && index == y + 1);
  /* Each row by itself, each column by itself. */
  sum = me + 1;
  kxmp_reduction(HERE, at2(q, all(), any()), KXMP_SUM, KXMP_INT, &sum, 1, KXMP_SYNC);
  CHECK(sum == 4 * y + 3);
  sum = 1 + x;
  kxmp_reduction(HERE, at2(q, any(), all()), KXMP_SUM, KXMP_INT, &sum, 1, KXMP_SYNC);
  CHECK(sum == (1 + x) * n / 2);
  /* Its own row, as NPB CG has it. */
  row = kxmp_nodes_make(&slot_row, HERE, "row", 1, two, KXMP_SUBSET, at2(q, all(), any()));
  again = kxmp_nodes_make(&slot_row, HERE, "row", 1, two, KXMP_SUBSET, at2(q, all(), any()));
  CHECK(row == again);
  CHECK(xmp_nodes_index(row, 1, &index) == 0 && index == x + 1);
  {
    xmp_desc_t part;
    int lb[2], ub[2], st[2], attr;
    CHECK(xmp_nodes_equiv(row, &part, lb, ub, st) == 0 && part == (xmp_desc_t)q);
    CHECK(lb[0] == 1 && ub[0] == 2 && st[0] == 1 && lb[1] == y + 1 && ub[1] == y + 1);
    CHECK(xmp_nodes_attr(row, &attr) == 0 && attr == XMP_EQUIVALENCE_NODES);
  }
  sum = me;
  kxmp_bcast(HERE, whole(row), NULL, &sum, sizeof sum, KXMP_SYNC);
  CHECK(sum == 2 * y);
}

static void tasks(void) {
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), turn, ran = 0;
  kxmp_task k;
  for (turn = 0; turn < 3; turn++) {
    /* The upper half, and the even nodes of it inside. */
    if (kxmp_task_begin(&k, HERE, at1(p, range(n / 2, KXMP_TO, 1)), 0)) {
      int sum = 1, inner = 0;
      kxmp_task j;
      CHECK(me >= n / 2 && xmp_num_nodes() == n - n / 2 && xmpc_node_num() == me - n / 2);
      kxmp_barrier(HERE, executing());
      kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &sum, 1, KXMP_SYNC);
      CHECK(sum == n - n / 2);
      {
        static kxmp_nodes *slot;
        long star[] = { KXMP_STAR };
        kxmp_nodes *here = kxmp_nodes_make(&slot, HERE, "here", 1, star, KXMP_EXECUTING, executing());
        if (kxmp_task_begin(&j, HERE, at1(here, range(0, KXMP_TO, 2)), 0)) {
          int count = 1;
          kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &count, 1, KXMP_SYNC);
          CHECK(count == xmp_num_nodes());
          inner = 1;
        }
        kxmp_task_end(&j);
        CHECK(inner == (xmpc_node_num() % 2 == 0));
      }
      ran++;
    }
    kxmp_task_end(&k);
    CHECK(xmp_num_nodes() == n);
  }
  CHECK(ran == (me >= n / 2 ? 3 : 0));
  if (kxmp_task_begin(&k, HERE, at1(p, at(0)), 1)) CHECK(me == 0 && xmp_num_nodes() == n);
  kxmp_task_end(&k);
}

#define EACH(type, kind, op, own, result) \
  do { \
    type v[3] = { own, own, own }; \
    kxmp_reduction(HERE, executing(), op, kind, v, 3, KXMP_SYNC); \
    CHECK(v[0] == (type)(result) && v[2] == (type)(result)); \
  } while (0)

static void types(void) {
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), i;
  double two = 1;
  for (i = 0; i < n; i++) two *= 2;
  EACH(char, KXMP_CHAR, KXMP_SUM, 1, n);
  EACH(unsigned char, KXMP_UCHAR, KXMP_MAX, me, n - 1);
  EACH(short, KXMP_SHORT, KXMP_MIN, me - 5, -5);
  EACH(unsigned short, KXMP_USHORT, KXMP_BOR, 1u << me, (1u << n) - 1);
  EACH(int, KXMP_INT, KXMP_BAND, ~(1 << me), ~((1 << n) - 1));
  EACH(unsigned, KXMP_UINT, KXMP_BXOR, 3, n % 2 ? 3 : 0);
  EACH(long, KXMP_LONG, KXMP_LAND, me + 1, 1);
  EACH(unsigned long, KXMP_ULONG, KXMP_LOR, me == n - 1 ? 1 : 0, 1);
  EACH(long long, KXMP_LLONG, KXMP_PROD, 2, two);
  EACH(unsigned long long, KXMP_ULLONG, KXMP_SUM, 1ull << 40, (unsigned long long)n << 40);
  EACH(float, KXMP_FLOAT, KXMP_SUM, 0.5f, n * 0.5);
  EACH(double, KXMP_DOUBLE, KXMP_LAND, me ? 1.5 : 0.0, 0.0);
  EACH(_Bool, KXMP_BOOL, KXMP_SUM, 1, 1);
  EACH(signed char, KXMP_SCHAR, KXMP_SUM, -1, -n);
  EACH(double complex, KXMP_DCOMPLEX, KXMP_SUM, 1 + 2 * I, n + 2 * n * I);
  EACH(float complex, KXMP_FCOMPLEX, KXMP_PROD, 2, two);
#ifdef __x86_64__
  EACH(long double, KXMP_LDOUBLE, KXMP_SUM, 1 + 0x1p-58L, n * (1 + 0x1p-58L));
  EACH(long double, KXMP_LDOUBLE, KXMP_MAX, me + 0.5L, n - 0.5L);
  EACH(long double complex, KXMP_LDCOMPLEX, KXMP_PROD, 2, two);
#endif
}

int main(int argc, char **argv) {
  kxmp_start(&argc, &argv);
  CHECK(xmp_wtime() >= 0 && xmp_wtick() > 0);
  sets();
  grids();
  tasks();
  types();
  if (xmpc_all_node_num() == 0) printf("nodes: ok\n");
  return 0;
}
