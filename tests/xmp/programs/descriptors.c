/* nodes: 6 */
/* What descriptors say of nodes, templates and arrays is enough to walk through the local part by hand. */
#include <xmp.h>
#include "check.h"
#define N 14
#define M 9
#pragma xmp nodes p[3][2]
#pragma xmp template t[N][M]
#pragma xmp distribute t[block][cyclic] onto p
#pragma xmp template f(5:20)
#pragma xmp nodes q(6)
#pragma xmp distribute f(block) onto q
double a[N][M], b[16];
int flat[M];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp shadow a[1:2][0]
#pragma xmp align b[i] with f(i+5)
#pragma xmp align flat[j] with t[*][j]

int main(void)
{
  xmp_desc_t da = xmp_desc_of(a), dt, dn, db = xmp_desc_of(b), df = xmp_desc_of(flat);
  int n, size, lo, hi, i, j, me = xmpc_node_num(), axis, off, rep, format, index[2], rank;
  CHECK(xmp_array_ndims(da, &n) == 0 && n == 2);
  CHECK(xmp_array_ubound(da, 1, &hi) == 0 && hi == N - 1 && xmp_array_lbound(da, 2, &lo) == 0 && lo == 0);
  CHECK(xmp_array_lshadow(da, 1, &lo) == 0 && lo == 1 && xmp_array_ushadow(da, 1, &hi) == 0 && hi == 2);
  CHECK(xmp_align_template(da, &dt) == 0 && xmp_template_ndims(dt, &n) == 0 && n == 2);
  CHECK(xmp_template_fixed(dt, &n) == 0 && n == 1);
  CHECK(xmp_template_ubound(dt, 1, &hi) == 0 && hi == M - 1 && xmp_template_ubound(dt, 2, &hi) == 0 && hi == N - 1);
  CHECK(xmp_dist_format(dt, 1, &format) == 0 && format == 2102 && xmp_dist_format(dt, 2, &format) == 0 && format == 2101);
  CHECK(xmp_dist_blocksize(dt, 2, &size) == 0 && size == 5);
  CHECK(xmp_dist_nodes(dt, &dn) == 0 && xmp_nodes_ndims(dn, &n) == 0 && n == 2);
  CHECK(xmp_nodes_size(dn, 1, &size) == 0 && size == 2 && xmp_nodes_size(dn, 2, &size) == 0 && size == 3);
  CHECK(xmp_nodes_index(dn, 1, &index[0]) == 0 && xmp_nodes_index(dn, 2, &index[1]) == 0);
  CHECK(index[0] == me % 2 + 1 && index[1] == me / 2 + 1);
  CHECK(xmpc_nodes_index(dn, 2, &rank) == 0 && rank == me / 2);
  CHECK(xmp_dist_axis(dt, 1, &axis) == 0 && axis == 1);
  CHECK(xmp_align_axis(da, 1, &axis) == 0 && axis == 2 && xmp_align_axis(db, 1, &axis) == 0 && axis == 1);
  CHECK(xmp_align_offset(db, 1, &off) == 0 && off == 5);
  CHECK(xmp_align_replicated(df, 2, &rep) == 0 && rep == 1 && xmp_align_replicated(da, 2, &rep) == 0 && rep == 0);
#pragma xmp loop on t[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[i][j] = i * 10 + j;
  /* The same elements, by address, sizes and leading dimensions. */
  {
    double *base;
    int rows, columns, lead[2], first, count = 0;
    CHECK(xmp_array_laddr(da, (void **)&base) == 0);
    CHECK(xmp_array_lsize(da, 1, &rows) == 0 && xmp_array_lsize(da, 2, &columns) == 0);
    CHECK(xmp_array_lead_dim(da, lead) == 0);
    first = me / 2 * 5;
    for (i = first; i < N && i < first + 5; i++)
      for (j = me % 2; j < M; j += 2) {
        CHECK(base[(i - first + 1) * lead[1] + j / 2] == i * 10 + j);
        count++;
      }
    CHECK(count == (me / 2 < 2 ? 5 : 4) * (me % 2 ? 4 : 5) && columns == (me % 2 ? 4 : 5));
    (void)rows;
  }
#pragma xmp loop on f(i+5)
  for (i = 0; i < 16; i++) b[i] = i;
  {
    int gl = xmp_array_gcllbound(db, 1), gu = xmp_array_gclubound(db, 1);
    CHECK(gl == 3 * me && (me == 5 ? gu == 15 : gu == 3 * me + 2));
  }
  {
    int g[2] = { 7, 4 }, l[2] = { -1, -1 };
#pragma xmp task on t[7][4]
    CHECK(me == 2 && xmp_array_gtol(da, g, l) == 0 && l[0] >= 0 && l[1] >= 0);
  }
  return wrong != 0;
}
