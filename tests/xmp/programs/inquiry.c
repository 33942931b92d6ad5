/* nodes: 12 */
/* What can be asked of nodes, templates and arrays: dimensions of nodes and templates are counted in Fortran's order, those of arrays in C's. */
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p[2][3][2]
#pragma xmp template t[9][6][16]
#pragma xmp distribute t[block][cyclic][block] onto p
int a[6][9][16];
#pragma xmp align a[i][j][k] with t[j][i][k]
#pragma xmp shadow a[0][1:2][0]
int main(void)
{
  int v, i, sizes[3] = {2, 3, 2}, bounds[3] = {5, 8, 15}, ub[3] = {15, 5, 8};
  xmp_desc_t d;
  xmp_nodes_ndims(xmp_desc_of(p), &v);
  CHECK(v == 3);
  for (i = 1; i <= 3; i++) {
    xmp_nodes_size(xmp_desc_of(p), i, &v);
    CHECK(v == sizes[3 - i]);
    xmp_template_ubound(xmp_desc_of(t), i, &v);
    CHECK(v == ub[i - 1]);
    xmp_array_ubound(xmp_desc_of(a), i, &v);
    CHECK(v == bounds[i - 1]);
  }
  if (xmp_node_num() == 11) {
    xmp_nodes_index(xmp_desc_of(p), 1, &v);
    CHECK(v == 1);
    xmp_nodes_index(xmp_desc_of(p), 2, &v);
    CHECK(v == 3);
    xmp_nodes_index(xmp_desc_of(p), 3, &v);
    CHECK(v == 2);
    xmpc_nodes_index(xmp_desc_of(p), 3, &v);
    CHECK(v == 1);
  }
  xmp_dist_format(xmp_desc_of(t), 2, &v);
  CHECK(v == XMP_CYCLIC);
  xmp_array_ushadow(xmp_desc_of(a), 2, &v);
  CHECK(v == 2);
  xmp_array_lshadow(xmp_desc_of(a), 2, &v);
  CHECK(v == 1);
  xmp_align_axis(xmp_desc_of(a), 1, &v);
  CHECK(v == 2);
  xmp_align_template(xmp_desc_of(a), &d);
  xmp_template_ndims(d, &v);
  CHECK(v == 3);
  xmp_dist_nodes(xmp_desc_of(t), &d);
  xmp_nodes_ndims(d, &v);
  CHECK(v == 3);
  CHECK(xmp_all_num_nodes() == 12 && xmp_num_nodes() == 12);
  return wrong != 0;
}
