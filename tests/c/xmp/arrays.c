/* Templates, distributions, arrays, loops, reductions of loops, reflect, gmove; each distribution with all of it. */
#include "check.h"

enum { N = 23, M = 9 };
static kxmp_nodes *p;

static kxmp_format format(int kind, long width) {
  kxmp_format f = { kind, width, NULL, 0 };
  return f;
}

/* A one-dimensional template of each kind. */
static kxmp_template *line(int kind, long lo, long hi) {
  kxmp_template *t;
  kxmp_template *none = NULL;
  kxmp_format f = format(KXMP_BLOCK, 0);
  int n = xmp_all_num_nodes(), i;
  int map[64];
  long rest = hi - lo + 1;
  t = kxmp_template_make(&none, HERE, "t", 1, &lo, &hi);
  switch (kind) {
    case 1: f = format(KXMP_CYCLIC, 1); break;
    case 2: f = format(KXMP_CYCLIC, 3); break;
    case 3: f = format(KXMP_BLOCK, (hi - lo + n) / n + 1); break;
    case 4:
      f = format(KXMP_GBLOCK, 0);
      for (i = 0; i < n; i++) {
        map[i] = i == n - 1 ? rest : i % 2 ? 0 : rest / 2;
        rest -= map[i];
      }
      f.map = map;
      f.entry_bytes = sizeof(int);
  }
  kxmp_distribute(HERE, t, 1, &f, p);
  return t;
}

static long place(const kxmp_array *a, int cyclic, long g) {
  const kxmp_dim *d = &a->map->dim[0];
  return cyclic ? KXMP_CYCLIC_INDEX(*d, g) : g + d->shift;
}

static kxmp_level level(int axis, long lo, long hi, long step) {
  kxmp_level l = { axis, 0, lo, hi, step };
  return l;
}

static kxmp_side side_of(kxmp_array *a, kxmp_part part) {
  kxmp_side s;
  memset(&s, 0, sizeof s);
  s.array = a;
  s.element = a->element;
  s.type = a->type;
  s.ndims = 1;
  s.part[0] = part;
  return s;
}

static kxmp_part section(long base, long length, long step) {
  kxmp_part part = KXMP_SECTION(base, length, step);
  return part;
}

static kxmp_part element(long i) {
  kxmp_part part = KXMP_INDEX(i);
  return part;
}

static void lines(int kind, int other) {
  int cyclic = kind == 1 || kind == 2, n = xmp_all_num_nodes(), count = 0, size;
  kxmp_template *t = line(kind, 2, N + 1), *u = line(other, 0, N - 1);
  kxmp_array a, b;
  kxmp_align shifted = { 0, 2 }, plain = { 0, 0 };
  long extent = N, i, sum = 1000;
  kxmp_level l = level(0, 0, N - 1, 1);
  kxmp_ref on = at1(t, any());
  kxmp_nest nest;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  kxmp_array_make(&a, HERE, "a", KXMP_LONG, sizeof(long), 1, &extent, t, &shifted, NULL, KXMP_OWN, NULL);
  kxmp_array_make(&b, HERE, "b", KXMP_LONG, sizeof(long), 1, &extent, u, &plain, NULL, KXMP_OWN, NULL);
  /* a[i] = i*i on the owners, each index once. */
  l.offset = 2;
  kxmp_loop_reduction_begin(HERE, on, 1, &l, KXMP_SUM, KXMP_LONG, &sum, 1);
  CHECK(kxmp_template_lower(t, 0) == 2 && kxmp_template_upper(t, 0) == N + 1);
  kxmp_nest_begin(&nest, HERE, on, 1, &l, NULL);
  while (kxmp_nest_next(&nest))
    for (i = nest.loop[0].first; i <= nest.loop[0].last; i += nest.loop[0].step) {
      ((long *)a.base)[place(&a, cyclic, i)] = i * i;
      sum += i;
      count++;
    }
  kxmp_loop_reduction_end(HERE, on, 1, &l, KXMP_SUM, KXMP_LONG, &sum, 1, 0, NULL, 0, NULL);
  CHECK(sum == 1000 + N * (N - 1) / 2);
  CHECK(xmp_array_lsize(&a, 1, &size) == 0 && size == count);
  kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &count, 1, KXMP_SYNC);
  CHECK(count == N);
  /* To the other distribution, turned round; and back to everybody. */
  {
    kxmp_side left = side_of(&b, section(N - 1, N, -1)), right = side_of(&a, section(0, N, 1));
    long all_of[N], one;
    kxmp_side here;
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &left, &right, KXMP_SYNC);
    memset(&here, 0, sizeof here);
    here.base = all_of;
    here.element = sizeof(long);
    here.type = KXMP_LONG;
    here.ndims = 1;
    here.extent = &extent;
    here.part[0] = section(0, N, 1);
    right = side_of(&b, section(KXMP_REST, KXMP_REST, 1));
    for (i = 0; i < N; i++) all_of[i] = -1;
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &here, &right, 7);
    {
      long id = 7;
      kxmp_wait_async(HERE, 1, &id, executing());
      CHECK(xmp_test_async(7) == 1);
    }
    for (i = 0; i < N; i++) CHECK(all_of[i] == (N - 1 - i) * (N - 1 - i));
    /* One element to a scalar of all, a scalar to a section. */
    here.base = &one;
    here.ndims = 0;
    right = side_of(&b, element(3));
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &here, &right, KXMP_SYNC);
    CHECK(one == (N - 4) * (N - 4));
    one = -7;
    left = side_of(&a, section(1, 5, 2));
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &left, &here, KXMP_SYNC);
    here.base = all_of;
    here.ndims = 1;
    right = side_of(&a, section(0, N, 1));
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &here, &right, KXMP_SYNC);
    for (i = 0; i < N; i++) CHECK(all_of[i] == (i % 2 == 1 && i < 10 ? -7 : i * i));
    /* A number of another type, both ways. */
    {
      double real = -2.75;
      kxmp_side other = here;
      other.base = &real;
      other.element = sizeof(double);
      other.type = KXMP_DOUBLE;
      other.ndims = 0;
      left = side_of(&a, element(2));
      kxmp_gmove(HERE, KXMP_COLLECTIVE, &left, &other, KXMP_SYNC);
      real = 0;
      right = side_of(&a, element(2));
      kxmp_gmove(HERE, KXMP_COLLECTIVE, &other, &right, KXMP_SYNC);
      CHECK(real == -2.0);
    }
    /* Get and put: the first node alone, and all together. */
    {
      kxmp_task k;
      if (kxmp_task_begin(&k, HERE, at1(p, at(n - 1)), 0)) {
        kxmp_side left2 = here;
        for (i = 0; i < N; i++) all_of[i] = -1;
        right = side_of(&b, section(0, N, 1));
        kxmp_gmove(HERE, KXMP_IN, &left2, &right, KXMP_SYNC);
        for (i = 0; i < N; i++) CHECK(all_of[i] == (N - 1 - i) * (N - 1 - i));
        for (i = 0; i < N; i++) all_of[i] = 3 * i;
        right = here;
        right.part[0] = section(4, 8, 2);
        left = side_of(&b, section(20, 8, -1));
        kxmp_gmove(HERE, KXMP_OUT, &left, &right, KXMP_SYNC);
      }
      kxmp_task_end(&k);
    }
    kxmp_barrier(HERE, executing());
    left = side_of(&a, section(0, N, 1));
    right = side_of(&b, section(0, N, 1));
    kxmp_gmove(HERE, KXMP_IN, &left, &right, KXMP_SYNC);
    right = side_of(&a, section(0, N, 1));
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &here, &right, KXMP_SYNC);
    for (i = 0; i < N; i++)
      CHECK(all_of[i] == (i <= 20 && i >= 13 ? 3 * (4 + 2 * (20 - i)) : (N - 1 - i) * (N - 1 - i)));
  }
  kxmp_array_drop(&a);
  kxmp_array_drop(&b);
}

/* The first and the last place of the largest value, whatever the distribution. */
static void locations(int kind) {
  kxmp_template *t = line(kind, 0, N - 1);
  kxmp_ref on = at1(t, any());
  kxmp_level l = level(0, 0, N - 1, 1);
  int op;
  for (op = KXMP_FIRSTMAX; op <= KXMP_LASTMIN; op++) {
    double value = op == KXMP_FIRSTMAX || op == KXMP_LASTMAX ? -1 : 100;
    long i, at_i = -5, iteration = 0;
    short other = -6;
    int set = 0;
    kxmp_nest nest;
    kxmp_place places[2];
    places[0].variable = &at_i;
    places[0].bytes = sizeof at_i;
    places[1].variable = &other;
    places[1].bytes = sizeof other;
    kxmp_loop_reduction_begin(HERE, on, 1, &l, op, KXMP_DOUBLE, &value, 1);
    kxmp_nest_begin(&nest, HERE, on, 1, &l, NULL);
    while (kxmp_nest_next(&nest))
      for (i = nest.loop[0].first; i <= nest.loop[0].last; i += nest.loop[0].step) {
        double v = (i * 5) % 7; /* 0..6, several times each */
        int takes = op == KXMP_FIRSTMAX ? v > value : op == KXMP_LASTMAX ? v >= value : op == KXMP_FIRSTMIN ? v < value : v <= value;
        if (takes) {
          value = v;
          at_i = i;
          other = (short)(2 * i);
          set = 1;
          iteration = i;
        }
      }
    kxmp_loop_reduction_end(HERE, on, 1, &l, op, KXMP_DOUBLE, &value, 1, 2, places, set, &iteration);
    {
      double best = op == KXMP_FIRSTMAX || op == KXMP_LASTMAX ? 6 : 0;
      long first = -1, last = -1;
      for (i = 0; i < N; i++)
        if ((i * 5) % 7 == best) {
          if (first < 0) first = i;
          last = i;
        }
      CHECK(value == best);
      CHECK(at_i == (op == KXMP_FIRSTMAX || op == KXMP_FIRSTMIN ? first : last) && other == 2 * at_i);
    }
  }
}

/* Two dimensions on a grid of nodes: shadows, reflect in its forms, reduce_shadow, margins. */
static void grids(int periodic) {
  static kxmp_nodes *slot;
  kxmp_nodes *q;
  kxmp_template *t = NULL;
  kxmp_array a;
  int n = xmp_all_num_nodes();
  long sizes[] = { n % 2 ? 1 : 2, KXMP_STAR }, lo[] = { 0, 0 }, hi[] = { M - 1, N - 1 }, extent[] = { N, M };
  kxmp_format f[] = { { KXMP_BLOCK, 0, NULL, 0 }, { KXMP_BLOCK, 0, NULL, 0 } };
  kxmp_align align[] = { { 1, 0 }, { 0, 0 } };
  kxmp_width shadow[] = { { 1, 2, 0 }, { 1, 1, 0 } };
  kxmp_level l[] = { { 1, 0, 0, N - 1, 1 }, { 0, 0, 0, M - 1, 1 } };
  kxmp_ref on;
  kxmp_nest nest;
  long i, j;
  q = kxmp_nodes_make(&slot, HERE, "q", 2, sizes, KXMP_ENTIRE, executing());
  t = kxmp_template_make(&t, HERE, "t", 2, lo, hi);
  kxmp_distribute(HERE, t, 2, f, q);
  on = at2(t, any(), any());
  memset(&a, 0, sizeof a);
  kxmp_array_make(&a, HERE, "a", KXMP_INT, sizeof(int), 2, extent, t, align, shadow, KXMP_OWN, NULL);
#define A(i, j) (((int *)a.origin)[(i) * a.map->dim[1].extent + (j)])
#define EACH(...) \
  while (kxmp_nest_next(&nest)) \
    for (i = nest.loop[0].first; i <= nest.loop[0].last; i += nest.loop[0].step) \
      for (j = nest.loop[1].first; j <= nest.loop[1].last; j += nest.loop[1].step) __VA_ARGS__
  kxmp_nest_begin(&nest, HERE, on, 2, l, NULL);
  EACH(A(i, j) = (int)(100 * i + j));
  {
    kxmp_width width[2] = { { 1, 2, periodic }, { 1, 1, periodic } };
    kxmp_reflect(HERE, &a, width, KXMP_CORNERS, KXMP_SYNC);
  }
  kxmp_nest_begin(&nest, HERE, on, 2, l, NULL);
  EACH({
    int di, dj;
    for (di = -1; di <= 2; di++)
      for (dj = -1; dj <= 1; dj++) {
        long x = i + di, y = j + dj;
        int inside = x >= 0 && x < N && y >= 0 && y < M;
        if (inside)
          CHECK(A(x, y) == 100 * x + y);
        else if (periodic)
          CHECK(A(x, y) == 100 * ((x + N) % N) + (y + M) % M);
        else
          CHECK(A(x, y) == 0);
      }
  });
  /* What was left in the shadow goes back, and counts once more. */
  if (!periodic) {
    kxmp_widen wide;
    int count = 0, inner = 0, margin = 0, mine = 0;
    memset(&wide, 0, sizeof wide);
    wide.mode = KXMP_EXPAND;
    wide.lo[0] = wide.hi[0] = wide.lo[1] = wide.hi[1] = -1;
    kxmp_nest_begin(&nest, HERE, on, 2, l, &wide);
    EACH(inner++);
    wide.mode = KXMP_MARGIN;
    kxmp_nest_begin(&nest, HERE, on, 2, l, &wide);
    EACH(margin++);
    kxmp_nest_begin(&nest, HERE, on, 2, l, NULL);
    EACH(mine++);
    CHECK(inner + margin == mine);
    memset(a.base, 0, (size_t)(a.map->dim[0].extent * a.map->dim[1].extent) * sizeof(int));
    wide.mode = KXMP_EXPAND;
    wide.lo[0] = wide.hi[0] = wide.lo[1] = 1;
    wide.hi[1] = 1;
    kxmp_nest_begin(&nest, HERE, on, 2, l, &wide);
    EACH(A(i, j) = 1);
    wide.lo[0] = wide.hi[0] = wide.lo[1] = wide.hi[1] = 0;
    {
      kxmp_width width[2] = { { 1, 1, 0 }, { 1, 1, 0 } };
      kxmp_reduce_shadow(HERE, &a, width, KXMP_CORNERS, KXMP_SYNC);
    }
    kxmp_nest_begin(&nest, HERE, on, 2, l, NULL);
    EACH(count += A(i, j));
    kxmp_nest_begin(&nest, HERE, on, 2, l, NULL);
    mine = 0;
    wide.mode = KXMP_EXPAND;
    wide.lo[0] = wide.hi[0] = wide.lo[1] = wide.hi[1] = 1;
    kxmp_nest_begin(&nest, HERE, on, 2, l, &wide);
    EACH(mine++);
    kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &count, 1, KXMP_SYNC);
    kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &mine, 1, KXMP_SYNC);
    CHECK(count == mine);
  }
  kxmp_array_drop(&a);
}

/* A pointer that gets its memory later, from a template that is fixed later; bound to a function's argument. */
static void later(void) {
  static kxmp_template *t;
  kxmp_template *made;
  kxmp_format f = format(KXMP_BLOCK, 0);
  kxmp_array a, dummy;
  kxmp_align align = { 0, 0 };
  kxmp_width full = { -1, -1, 0 };
  long size = N, star = KXMP_STAR, lo = 0, hi = N - 1, i;
  int first, last, value;
  double *memory;
  made = kxmp_template_make(&t, HERE, "t", 1, NULL, NULL);
  CHECK(xmp_template_fixed(made, &value) == 0 && value == 0);
  {
    /* While it is in use another execution of its directive gets another one; afterwards that one is found again. */
    kxmp_template *inner = kxmp_template_make(&t, HERE, "t", 1, NULL, NULL), *again;
    CHECK(inner != made);
    kxmp_template_leave(&inner);
    again = kxmp_template_make(&t, HERE, "t", 1, NULL, NULL);
    CHECK(again == inner);
    kxmp_template_leave(&again);
  }
  kxmp_distribute(HERE, made, 1, &f, p);
  memset(&a, 0, sizeof a);
  kxmp_array_make(&a, HERE, "a", KXMP_DOUBLE, sizeof(double), 1, NULL, made, &align, &full, KXMP_LATER, NULL);
  CHECK(a.base == NULL && a.map->ndims == 1 && a.map->dim[0].extent == 0);
  kxmp_template_fix(HERE, made, 1, NULL, &lo, &hi);
  CHECK(xmp_template_fixed(made, &value) == 0 && value == 1);
  memory = (double *)kxmp_malloc(HERE, &a, 1, &size);
  CHECK(memory == a.base && a.map->dim[0].extent == N);
  first = xmp_array_gcllbound(&a, 1);
  last = xmp_array_gclubound(&a, 1);
  for (i = first; i <= last; i++) memory[i] = i + 0.5;
  memset(&dummy, 0, sizeof dummy);
  kxmp_array_make(&dummy, HERE, "x", KXMP_DOUBLE, sizeof(double), 1, &star, made, &align, &full, KXMP_BOUND, memory);
  CHECK(dummy.map == a.map);
  kxmp_reflect_init(HERE, &dummy, NULL, KXMP_CORNERS);
  kxmp_reflect_do(HERE, &dummy, 3);
  {
    long id = 3;
    kxmp_wait_async(HERE, 1, &id, executing());
  }
  for (i = 0; i < N; i++) CHECK(memory[i] == i + 0.5);
  kxmp_array_drop(&dummy);
  {
    xmp_desc_t desc;
    CHECK(xmp_align_template(&a, &desc) == 0 && desc == (xmp_desc_t)made);
    CHECK(xmp_dist_nodes(made, &desc) == 0 && desc == (xmp_desc_t)p);
  }
  CHECK(xmp_dist_format(made, 1, &value) == 0 && value == XMP_BLOCK);
  CHECK(xmp_dist_blocksize(made, 1, &value) == 0 && value == (N + xmp_all_num_nodes() - 1) / xmp_all_num_nodes());
  CHECK(xmp_array_ubound(&a, 1, &value) == 0 && value == N - 1);
  xmp_free(&a);
  CHECK(a.base == NULL);
  kxmp_pointer_drop(&a);
  kxmp_array_drop(&a);
}

/* An array that is replicated over one dimension of the nodes. */
static void replicated(void) {
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), value;
  kxmp_nodes *q, *slot = NULL;
  kxmp_template *t = NULL;
  kxmp_array w;
  long sizes[] = { 2, KXMP_STAR }, lo[] = { 0, 0 }, hi[] = { N - 1, M - 1 }, extent = N, i;
  kxmp_format f[] = { { KXMP_BLOCK, 0, NULL, 0 }, { KXMP_BLOCK, 0, NULL, 0 } };
  kxmp_align align = { 0, 0 };
  if (n % 2) return;
  q = kxmp_nodes_make(&slot, HERE, "q", 2, sizes, KXMP_ENTIRE, executing());
  t = kxmp_template_make(&t, HERE, "t", 2, lo, hi);
  kxmp_distribute(HERE, t, 2, f, q);
  memset(&w, 0, sizeof w);
  kxmp_array_make(&w, HERE, "w", KXMP_INT, sizeof(int), 1, &extent, t, &align, NULL, KXMP_OWN, NULL);
  CHECK(xmp_align_replicated(&w, 2, &value) == 0 && value == 1);
  CHECK(xmp_align_replicated(&w, 1, &value) == 0 && value == 0);
  for (i = 0; i < w.map->dim[0].extent; i++) ((int *)w.base)[i] = me;
  kxmp_reduction_array(HERE, at2(q, any(), all()), KXMP_SUM, &w, KXMP_SYNC);
  {
    int sum = 0, k;
    for (k = me % 2; k < n; k += 2) sum += k;
    for (i = 0; i < w.map->dim[0].extent; i++) CHECK(((int *)w.base)[i] == sum);
  }
  for (i = 0; i < w.map->dim[0].extent; i++) ((int *)w.base)[i] = me;
  kxmp_bcast_array(HERE, at2(q, any(), all()), NULL, &w, KXMP_SYNC);
  for (i = 0; i < w.map->dim[0].extent; i++) CHECK(((int *)w.base)[i] == me % 2);
  /* A loop over the first dimension of the template: each column of nodes sums by itself. */
  {
    kxmp_level l = level(0, 0, N - 1, 1);
    kxmp_ref on = at2(t, any(), any());
    kxmp_nest nest;
    long sum = 5;
    kxmp_loop_reduction_begin(HERE, on, 1, &l, KXMP_SUM, KXMP_LONG, &sum, 1);
    kxmp_nest_begin(&nest, HERE, on, 1, &l, NULL);
    while (kxmp_nest_next(&nest))
      for (i = nest.loop[0].first; i <= nest.loop[0].last; i += nest.loop[0].step) sum += i;
    kxmp_loop_reduction_end(HERE, on, 1, &l, KXMP_SUM, KXMP_LONG, &sum, 1, 0, NULL, 0, NULL);
    CHECK(sum == 5 + N * (N - 1) / 2);
  }
  kxmp_array_drop(&w);
}

int main(int argc, char **argv) {
  int kind, other;
  long star = KXMP_STAR;
  kxmp_start(&argc, &argv);
  p = kxmp_nodes_make(&p, HERE, "p", 1, &star, KXMP_ENTIRE, executing());
  for (kind = 0; kind < 5; kind++) {
    for (other = 0; other < 5; other++) lines(kind, other);
    locations(kind);
  }
  grids(0);
  grids(1);
  later();
  replicated();
  if (xmpc_all_node_num() == 0) printf("arrays: ok\n");
  return 0;
}
