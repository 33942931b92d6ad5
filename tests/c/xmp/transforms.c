/* The transformational functions, by descriptors, between arrays that lie differently. */
#include "check.h"

enum { N = 11, K = 7, L = 30 };
static kxmp_nodes *p, *q;

static kxmp_template *square(kxmp_nodes *onto, int dims, long n0, long n1, int kind) {
  kxmp_template *t = NULL;
  long lo[] = { 0, 0 }, hi[] = { n1 - 1, n0 - 1 };
  kxmp_format f[2] = { { KXMP_NONE, 0, NULL, 0 }, { KXMP_NONE, 0, NULL, 0 } };
  t = kxmp_template_make(&t, HERE, "t", 2, lo, hi);
  f[0].kind = kind;
  if (kind == KXMP_CYCLIC) f[0].width = 2;
  if (dims == 2) f[1].kind = KXMP_BLOCK;
  kxmp_distribute(HERE, t, 2, f, onto);
  return t;
}

static void make2(kxmp_array *a, const char *name, kxmp_template *t, int turned, long n0, long n1, const kxmp_width *shadow) {
  long sizes[] = { n0, n1 };
  kxmp_align align[] = { { 1, 0 }, { 0, 0 } };
  if (turned) {
    align[0].axis = 0;
    align[1].axis = 1;
  }
  memset(a, 0, sizeof *a);
  kxmp_array_make(a, HERE, name, KXMP_DOUBLE, sizeof(double), 2, sizes, t, align, shadow, KXMP_OWN, NULL);
}

/* All of an array from memory that every node has, and back. */
static void move(kxmp_array *a, void *memory, int dims, const long *extent, int in) {
  kxmp_side here, there;
  int i;
  memset(&here, 0, sizeof here);
  here.base = memory;
  here.element = a->element;
  here.type = a->type;
  here.ndims = dims;
  here.extent = extent;
  for (i = 0; i < dims; i++) {
    here.part[i].is_range = 1;
    here.part[i].length = extent[i];
    here.part[i].step = 1;
  }
  there = here;
  there.base = NULL;
  there.array = a;
  if (in)
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &there, &here, KXMP_SYNC);
  else
    kxmp_gmove(HERE, KXMP_COLLECTIVE, &here, &there, KXMP_SYNC);
}

static void matrices(int kind) {
  static const long nk[] = { N, K }, kn[] = { K, N }, nn[] = { N, N };
  double a[N][K], b[K][N], x[N][N], y[K][N];
  kxmp_array da, db, dx, dy;
  kxmp_width shadow[] = { { 1, 1, 0 }, { 0, 2, 0 } };
  int i, j, k;
  make2(&da, "a", square(q, 2, N, K, KXMP_BLOCK), 0, N, K, shadow);
  make2(&db, "b", square(p, 1, K, N, kind), 0, K, N, NULL);
  make2(&dx, "x", square(q, 2, N, N, kind), 0, N, N, NULL);
  make2(&dy, "y", square(q, 2, N, K, KXMP_BLOCK), 1, K, N, NULL);
  for (i = 0; i < N; i++)
    for (k = 0; k < K; k++) a[i][k] = 1 + i * K + k;
  for (k = 0; k < K; k++)
    for (j = 0; j < N; j++) b[k][j] = k - 2 * j;
  move(&da, a, 2, nk, 1);
  move(&db, b, 2, kn, 1);
  xmp_transpose(&dy, &da, 0);
  move(&dy, y, 2, kn, 0);
  for (i = 0; i < N; i++)
    for (k = 0; k < K; k++) CHECK(y[k][i] == a[i][k]);
  xmp_transpose(&db, &da, 1);
  move(&db, y, 2, kn, 0);
  for (i = 0; i < N; i++)
    for (k = 0; k < K; k++) CHECK(y[k][i] == a[i][k]);
  move(&db, b, 2, kn, 1);
  xmp_matmul(&dx, &da, &db);
  move(&dx, x, 2, nn, 0);
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      double sum = 0;
      for (k = 0; k < K; k++) sum += a[i][k] * b[k][j];
      CHECK(x[i][j] == sum);
    }
  kxmp_array_drop(&da);
  kxmp_array_drop(&db);
  kxmp_array_drop(&dx);
  kxmp_array_drop(&dy);
}

static void make1(kxmp_array *a, const char *name, int kind, long width, int type, size_t element, long n) {
  kxmp_template *t = NULL;
  long lo = 0, hi = n - 1;
  kxmp_format f = { kind, width, NULL, 0 };
  kxmp_align align = { 0, 0 };
  t = kxmp_template_make(&t, HERE, "t", 1, &lo, &hi);
  kxmp_distribute(HERE, t, 1, &f, p);
  memset(a, 0, sizeof *a);
  kxmp_array_make(a, HERE, name, type, element, 1, &n, t, &align, NULL, KXMP_OWN, NULL);
}

static void lines(void) {
  static const long extent[] = { L };
  long v[L], w[L];
  int mask[L], index[L], i, count = 0;
  kxmp_array dv, dw, dm, di;
  make1(&dv, "v", KXMP_CYCLIC, 2, KXMP_LONG, sizeof(long), L);
  make1(&dw, "w", KXMP_BLOCK, 0, KXMP_LONG, sizeof(long), L);
  make1(&dm, "mask", KXMP_CYCLIC, 1, KXMP_INT, sizeof(int), L);
  make1(&di, "index", KXMP_BLOCK, 0, KXMP_INT, sizeof(int), L);
  for (i = 0; i < L; i++) {
    v[i] = (i * 17) % 13 - 4;
    mask[i] = i % 3 == 1;
    index[i] = (i * 7) % L;
  }
  move(&dv, v, 1, extent, 1);
  move(&dm, mask, 1, extent, 1);
  move(&di, index, 1, extent, 1);
  xmp_sort_up(&dw, &dv);
  move(&dw, w, 1, extent, 0);
  for (i = 1; i < L; i++) CHECK(w[i - 1] <= w[i]);
  {
    long sum = 0;
    for (i = 0; i < L; i++) sum += v[i] - w[i];
    CHECK(sum == 0 && w[0] == -4);
  }
  xmp_sort_down(&dw, &dw);
  move(&dw, w, 1, extent, 0);
  for (i = 1; i < L; i++) CHECK(w[i - 1] >= w[i]);
  for (i = 0; i < L; i++) w[i] = -100;
  move(&dw, w, 1, extent, 1);
  xmp_pack(&dw, &dv, &dm);
  move(&dw, w, 1, extent, 0);
  for (i = 0; i < L; i++)
    if (mask[i]) CHECK(w[count++] == v[i]);
  CHECK(w[count] == -100);
  for (i = 0; i < L; i++) w[i] = 1000 + i;
  move(&dw, w, 1, extent, 1);
  xmp_unpack(&dv, &dw, &dm);
  {
    long u[L];
    move(&dv, u, 1, extent, 0);
    count = 0;
    for (i = 0; i < L; i++) CHECK(u[i] == (mask[i] ? 1000 + count++ : v[i]));
  }
  move(&dv, v, 1, extent, 1);
  xmp_gather(&dw, &dv, &di);
  move(&dw, w, 1, extent, 0);
  for (i = 0; i < L; i++) CHECK(w[i] == v[index[i]]);
  for (i = 0; i < L; i++) w[i] = 5 * i;
  move(&dw, w, 1, extent, 1);
  xmp_scatter(&dv, &dw, &di);
  move(&dv, v, 1, extent, 0);
  for (i = 0; i < L; i++) CHECK(v[index[i]] == 5 * i);
  kxmp_array_drop(&dv);
  kxmp_array_drop(&dw);
  kxmp_array_drop(&dm);
  kxmp_array_drop(&di);
}

int main(int argc, char **argv) {
  long star = KXMP_STAR, two[] = { KXMP_STAR, KXMP_STAR };
  kxmp_start(&argc, &argv);
  p = kxmp_nodes_make(&p, HERE, "p", 1, &star, KXMP_ENTIRE, executing());
  q = kxmp_nodes_make(&q, HERE, "q", 2, two, KXMP_ENTIRE, executing());
  matrices(KXMP_BLOCK);
  matrices(KXMP_CYCLIC);
  lines();
  if (xmpc_all_node_num() == 0) printf("transforms: ok\n");
  return 0;
}
