/* What can be asked about templates and arrays. Dimensions of templates are counted from the fastest, those of arrays from the left. */
#include "check.h"

#define ASK(function, d, dim, wanted) \
  do { \
    int answer_ = -77; \
    CHECK(function(d, dim, &answer_) == 0 && answer_ == (int)(wanted)); \
  } while (0)

int main(int argc, char **argv) {
  kxmp_nodes *p = NULL;
  kxmp_template *t = NULL;
  kxmp_array a;
  int n, me, value, block, first, last, i;
  int map[16], got[16];
  long star = KXMP_STAR;
  /* template t[9][6][16], distribute t[gblock(map)][*][block]: the fastest first. */
  long lo[] = { 0, 0, 0 }, hi[] = { 15, 5, 8 }, sizes[] = { 6, 9, 15 };
  kxmp_format f[] = { { KXMP_BLOCK, 0, NULL, 0 }, { KXMP_NONE, 0, NULL, 0 }, { KXMP_NONE, 0, NULL, 0 } };
  /* align a[i][j][k] with t[j][i][k+1], shadow a[0][0][1:2]. */
  kxmp_align align[] = { { 1, 0 }, { 2, 0 }, { 0, 1 } };
  kxmp_width shadow[] = { { 0, 0, 0 }, { 0, 0, 0 }, { 1, 2, 0 } };
  kxmp_start(&argc, &argv);
  n = xmp_all_num_nodes();
  me = xmpc_all_node_num();
  CHECK(xmp_all_node_num() == me + 1 && xmp_this_image() == me + 1);
  p = kxmp_nodes_make(&p, HERE, "p", 1, &star, KXMP_ENTIRE, executing());
  t = kxmp_template_make(&t, HERE, "t", 3, lo, hi);
  kxmp_distribute(HERE, t, 3, f, p);
  CHECK(xmp_template_ndims(t, &value) == 0 && value == 3);
  ASK(xmp_template_lbound, t, 3, 0);
  ASK(xmp_template_ubound, t, 1, 15);
  ASK(xmp_template_ubound, t, 3, 8);
  CHECK(xmp_template_gsize(t, 2) == 6);
  ASK(xmp_dist_format, t, 1, XMP_BLOCK);
  ASK(xmp_dist_format, t, 2, XMP_NOT_DISTRIBUTED);
  ASK(xmp_dist_axis, t, 1, 1);
  ASK(xmp_dist_axis, t, 3, 0);
  block = (16 + n - 1) / n;
  first = me * block;
  last = first + block - 1 < 15 ? first + block - 1 : 15;
  if (first > 15) first = 0, last = -1;
  ASK(xmp_dist_blocksize, t, 1, block);
  CHECK(xmp_template_lsize(t, 1) == last - first + 1);
  memset(&a, 0, sizeof a);
  kxmp_array_make(&a, HERE, "a", KXMP_FLOAT, sizeof(float), 3, sizes, t, align, shadow, KXMP_OWN, NULL);
  CHECK(xmp_array_ndims(&a, &value) == 0 && value == 3);
  ASK(xmp_align_axis, &a, 1, 2);
  ASK(xmp_align_axis, &a, 2, 3);
  ASK(xmp_align_axis, &a, 3, 1);
  ASK(xmp_align_offset, &a, 3, 1);
  ASK(xmp_array_lbound, &a, 2, 0);
  ASK(xmp_array_lbound_global, &a, 2, 0);
  ASK(xmp_array_ubound, &a, 1, 5);
  ASK(xmp_array_ubound_global, &a, 2, 8);
  CHECK(xmp_array_gsize(&a, 3) == 15);
  ASK(xmp_array_lshadow, &a, 3, 1);
  ASK(xmp_array_ushadow, &a, 3, 2);
  /* Element k is at index k + 1 of the template. */
  if (first <= last) {
    int from = first - 1 < 0 ? 0 : first - 1, to = last - 1, lead[3], global[3] = { 3, 4, 0 }, local[3];
    if (from <= to) {
      void *address;
      CHECK(xmp_array_gcllbound(&a, 3) == from);
      CHECK(xmp_array_gclubound(&a, 3) == to);
      CHECK(xmp_array_lcllbound(&a, 3) == 1);
      CHECK(xmp_array_lclubound(&a, 3) == 1 + to - from);
      ASK(xmp_array_lsize, &a, 3, to - from + 1);
      CHECK(xmp_array_laddr(&a, &address) == 0 && address == a.base);
      CHECK(xmp_array_lead_dim(&a, lead) == 0 && lead[0] == 6 && lead[1] == 9 && lead[2] == to - from + 4);
      global[2] = to;
      CHECK(xmp_array_gtol(&a, global, local) == 0 && local[0] == 3 && local[1] == 4 && local[2] == 1 + to - from);
      CHECK(xmp_array_owner(&a, 3, global, 0) == me && xmp_array_owner(&a, 3, global, 3) == me);
    }
    xmp_sched_template_index(&i, &value, 0, 15, 1, t, 0);
    CHECK(i == 0 && value == last - first + 1);
    xmp_sched_template_index(&i, &value, 15, 0, -1, t, 0);
    CHECK(i == last - first && value == -1);
    global[2] = 4000;
    CHECK(xmp_array_owner(&a, 3, global, 3) == -1);
  }
  kxmp_array_drop(&a);
  /* Irregular blocks. */
  for (i = 0; i < n; i++) map[i] = i == n - 1 ? 16 - i : 1;
  if (n < 16) {
    kxmp_template *u = NULL;
    long low = 0, high = 15;
    kxmp_format g = { KXMP_GBLOCK, 0, NULL, 0 };
    g.map = map;
    g.entry_bytes = sizeof(int);
    u = kxmp_template_make(&u, HERE, "u", 1, &low, &high);
    kxmp_distribute(HERE, u, 1, &g, p);
    CHECK(xmp_dist_gblockmap(u, 1, got) == 0);
    for (i = 0; i < n; i++) CHECK(got[i] == map[i]);
    CHECK(xmp_dist_gblockmap(t, 1, got) < 0 && xmp_nodes_ndims(t, &value) < 0);
  }
  if (me == 0) printf("inquiry: ok\n");
  return 0;
}
