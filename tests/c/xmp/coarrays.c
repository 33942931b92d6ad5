/* Coarrays, their synchronisation, atomics, locks, post and wait. */
#include "check.h"
#include <stddef.h>

struct item { int n; double v[5]; };
static kxmp_coarray *x, *grid, *s, *locks, *items;
static struct item *items_memory;
static int (*x_memory)[6];
static double *grid_memory;
static long *s_memory;
static kxmp_nodes *p;

static void initialise(void) {
  static kxmp_nodes *slot;
  long star[] = { KXMP_STAR }, extent[] = { 5, 6 }, three[] = { 3 };
  void *m;
  p = kxmp_nodes_make(&slot, HERE, "p", 1, star, KXMP_ENTIRE, executing());
  kxmp_coarray_make(&x, &m, HERE, "x", KXMP_INT, sizeof(int), 2, extent, 1, star, NULL);
  x_memory = (int(*)[6])m;
  {
    long codims[] = { 1, KXMP_STAR };
    kxmp_coarray_make(&grid, &m, HERE, "grid", KXMP_DOUBLE, sizeof(double), 1, three, 2, codims, p);
    grid_memory = (double *)m;
  }
  kxmp_coarray_make(&s, &m, HERE, "s", KXMP_LONG, sizeof(long), 0, NULL, 1, star, NULL);
  s_memory = (long *)m;
  kxmp_coarray_make(&items, &m, HERE, "items", KXMP_OTHER, sizeof(struct item), 1, three, 1, star, NULL);
  items_memory = (struct item *)m;
  kxmp_coarray_make(&locks, &m, HERE, "locks", KXMP_OTHER, sizeof(xmp_lock_t), 0, NULL, 1, star, NULL);
}

__attribute__((constructor)) static void unit(void) { kxmp_unit(initialise); }

static kxmp_side scalar(void *v, size_t element, int type) {
  kxmp_side side;
  memset(&side, 0, sizeof side);
  side.base = v;
  side.element = element;
  side.type = type;
  return side;
}

static kxmp_part section(long base, long length, long step) {
  kxmp_part part = KXMP_SECTION(base, length, step);
  return part;
}

static kxmp_part element(long i) {
  kxmp_part part = KXMP_INDEX(i);
  return part;
}

static void puts_and_gets(void) {
  int n = xmp_num_images(), me = xmpc_this_image(), i, j;
  long next[] = { (me + 1) % n }, before[] = { (me + n - 1) % n };
  int line[12], one = 1000 + me;
  static const long twelve[] = { 12 };
  kxmp_part row[] = { element(2), section(0, 6, 1) }, some[] = { section(0, 3, 2), section(5, 3, -2) };
  kxmp_side side = scalar(line, sizeof(int), KXMP_INT);
  for (i = 0; i < 5; i++)
    for (j = 0; j < 6; j++) x_memory[i][j] = 0;
  for (i = 0; i < 12; i++) line[i] = 100 * me + i;
  xmp_sync_all(NULL);
  side.ndims = 1;
  side.extent = twelve;
  side.part[0] = section(11, 6, -2);
  kxmp_coarray_put(HERE, x, next, row, &side);
  xmp_sync_all(NULL);
  for (j = 0; j < 6; j++) CHECK(x_memory[2][j] == 100 * before[0] + 11 - 2 * j);
  xmp_sync_all(NULL);
  /* One value for a whole section, by steps. */
  side = scalar(&one, sizeof(int), KXMP_INT);
  kxmp_coarray_put(HERE, x, next, some, &side);
  xmp_sync_all(NULL);
  for (i = 0; i < 5; i++)
    for (j = 0; j < 6; j++)
      if (i % 2 == 0 && j % 2 == 1)
        CHECK(x_memory[i][j] == 1000 + before[0]);
      else if (i != 2)
        CHECK(x_memory[i][j] == 0);
  /* A section comes back, and one element. */
  {
    int back[3][3];
    static const long three[] = { 3, 3 };
    kxmp_part at[] = { element(4), element(1) };
    side = scalar(back, sizeof(int), KXMP_INT);
    side.ndims = 2;
    side.extent = three;
    side.part[0] = section(2, 3, -1);
    side.part[1] = section(0, KXMP_REST, 1);
    kxmp_coarray_get(HERE, x, next, some, &side);
    for (i = 0; i < 3; i++)
      for (j = 0; j < 3; j++) CHECK(back[i][j] == 1000 + me);
    CHECK(*(const int *)kxmp_coarray_fetch(HERE, x, next, at) == 1000 + me);
  }
  xmp_sync_all(NULL);
  /* Overlapping, of one image: as if it were read first. */
  for (j = 0; j < 6; j++) x_memory[0][j] = j;
  {
    static const long six[] = { 6 };
    long own[] = { me };
    kxmp_part to[] = { element(0), section(1, 5, 1) };
    side = scalar(x_memory[0], sizeof(int), KXMP_INT);
    side.ndims = 1;
    side.extent = six;
    side.part[0] = section(0, 5, 1);
    kxmp_coarray_put(HERE, x, own, to, &side);
    for (j = 0; j < 6; j++) CHECK(x_memory[0][j] == (j ? j - 1 : 0));
  }
  /* From one image to another, by a third. */
  {
    long from[] = { 0, (me + 1) % n }, to[] = { 0, me };
    kxmp_part part[] = { section(0, 2, 1) }, into[] = { section(1, 2, 1) };
    grid_memory[0] = me + 0.25;
    grid_memory[1] = me + 0.5;
    grid_memory[2] = 0;
    xmp_sync_all(NULL);
    from[1] = (me + 1) % n;
    to[1] = (me + 2) % n;
    if (n < 3) to[1] = me, from[1] = (me + 1) % n;
    part[0] = section(0, 1, 1);
    into[0] = section(2, 1, 1);
    kxmp_coarray_copy(HERE, grid, to, into, grid, from, part);
    xmp_sync_all(NULL);
    CHECK(grid_memory[2] == (n < 3 ? (me + 1) % n : (me + n - 1) % n) + 0.25);
  }
}

static void words(void) {
  int n = xmp_num_images(), me = xmpc_this_image(), i, status = 7;
  long zero[] = { 0 }, next[] = { (me + 1) % n }, own[] = { me };
  long seen = 0;
  *s_memory = 0;
  xmp_sync_all(&status);
  CHECK(status == XMP_STAT_SUCCESS);
  kxmp_atomic_define(HERE, s, next, NULL, 77);
  do {
    kxmp_atomic_ref(HERE, &seen, sizeof seen, s, own, NULL);
  } while (seen != 77);
  xmp_sync_all(NULL);
  *s_memory = 0;
  xmp_sync_all(NULL);
  /* A counter that nobody changes but under the lock. */
  for (i = 0; i < 20; i++) {
    long value;
    kxmp_side side = scalar(&value, sizeof value, KXMP_LONG);
    kxmp_lock(HERE, locks, zero, NULL, NULL, NULL);
    kxmp_coarray_get(HERE, s, zero, NULL, &side);
    value++;
    kxmp_coarray_put(HERE, s, zero, NULL, &side);
    kxmp_unlock(HERE, locks, zero, NULL, NULL);
  }
  xmp_sync_all(NULL);
  if (me == 0) CHECK(*s_memory == 20 * n);
  {
    int acquired = 5;
    kxmp_lock(HERE, locks, own, NULL, &acquired, &status);
    CHECK(acquired == 1 && status == 0);
    kxmp_lock(HERE, locks, own, NULL, &acquired, &status);
    CHECK(acquired == 0 && status == XMP_STAT_LOCKED);
    xmp_sync_all(NULL);
    if (n > 1) {
      kxmp_unlock(HERE, locks, next, NULL, &status);
      CHECK(status == XMP_STAT_LOCKED_OTHER_IMAGE);
    }
    xmp_sync_all(NULL);
    kxmp_unlock(HERE, locks, own, NULL, &status);
    CHECK(status == 0);
    kxmp_unlock(HERE, locks, own, NULL, &status);
    CHECK(status == XMP_STAT_UNLOCKED);
  }
}

static void events(void) {
  int n = xmp_num_images(), me = xmpc_this_image(), i;
  kxmp_ref next = at1(p, at((me + 1) % n)), before = at1(p, at((me + n - 1) % n));
  long value = 500 + me, to[] = { (me + 1) % n };
  kxmp_side side = scalar(&value, sizeof value, KXMP_LONG);
  *s_memory = 0;
  xmp_sync_all(NULL);
  kxmp_coarray_put(HERE, s, to, NULL, &side);
  kxmp_post(HERE, next, 3);
  kxmp_post(HERE, next, 4);
  kxmp_post(HERE, next, 3);
  kxmp_wait(HERE, &before, 4);
  CHECK(*s_memory == 500 + (me + n - 1) % n);
  kxmp_wait(HERE, &before, 3);
  kxmp_wait(HERE, &before, KXMP_NO_TAG);
  /* Everybody tells the first. */
  kxmp_post(HERE, at1(p, at(0)), 9);
  if (me == 0)
    for (i = 0; i < n; i++) kxmp_wait(HERE, NULL, KXMP_NO_TAG);
  /* The first with all, all with the first. */
  if (me == 0)
    xmp_sync_images_all(NULL);
  else
    xmp_sync_image(0, NULL);
  xmp_sync_memory(NULL);
  if (n > 1) {
    int pair[] = { (me + 1) % n, (me + n - 1) % n };
    xmp_sync_images(n > 2 ? 2 : 1, pair, NULL);
  }
}

/* A member of several elements, and some of the elements of one, backwards; the rest stays. */
static void members(void) {
  int n = xmp_num_images(), me = xmpc_this_image(), i, k, number = 10 + me;
  long next[] = { (me + 1) % n };
  double before = (me + n - 1) % n, values[] = { me + 0.5, me + 0.25 };
  static const long two[] = { 2 };
  kxmp_part all[] = { section(0, 3, 1) }, second[] = { element(1) };
  kxmp_inside numbers = { offsetof(struct item, n), sizeof(int), KXMP_INT, 0, { { 0, 0 } } };
  kxmp_inside some = { offsetof(struct item, v[4]), sizeof(double), KXMP_DOUBLE, 1, { { 2, -3 * (long)sizeof(double) } } };
  kxmp_side side = scalar(&number, sizeof(int), KXMP_INT);
  for (i = 0; i < 3; i++)
    for (k = 0; k < 5; k++) items_memory[i].v[k] = -1;
  xmp_sync_all(NULL);
  kxmp_coarray_put_inside(HERE, items, next, all, &numbers, &side);
  side = scalar(values, sizeof(double), KXMP_DOUBLE);
  side.ndims = 1;
  side.extent = two;
  side.part[0] = section(0, 2, 1);
  kxmp_coarray_put_inside(HERE, items, next, second, &some, &side);
  xmp_sync_all(NULL);
  for (i = 0; i < 3; i++) {
    CHECK(items_memory[i].n == 10 + (int)before && items_memory[i].v[0] == -1);
    CHECK(items_memory[i].v[4] == (i == 1 ? before + 0.5 : -1) && items_memory[i].v[1] == (i == 1 ? before + 0.25 : -1));
  }
}

int main(int argc, char **argv) {
  kxmp_start(&argc, &argv);
  puts_and_gets();
  members();
  words();
  events();
  kxmp_barrier(HERE, executing());
  if (xmpc_all_node_num() == 0) printf("coarrays: ok\n");
  return 0;
}
