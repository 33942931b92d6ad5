/* nodes: 6 */
/* Rows of nodes as NPB CG has them, `*` as my own coordinate; a reduction of an aligned array over a row; sizes that are completed. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes proc(3,*)
#pragma xmp nodes row(3) = proc(:,*)
#pragma xmp nodes column(2) = proc(*,:)
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp distribute t(block,block) onto proc
double w[N], q[N];
#pragma xmp align w[i] with t(*,i)
#pragma xmp align q[i] with t(i,*)
int main(void)
{
  int me = xmp_node_num(), s, i, v;
  xmp_nodes_size(xmp_desc_of(proc), 2, &v);
  CHECK(v == 2);
  s = me;
#pragma xmp reduction(+:s) on row
  CHECK(s == (me <= 3 ? 6 : 15));
  s = me;
#pragma xmp reduction(max:s) on column(:)
  CHECK(s == (me - 1) % 3 + 4);
#pragma xmp loop on t(*,i)
  for (i = 0; i < N; i++) w[i] = i + 100 * ((me - 1) % 3);
#pragma xmp reduction(+:w) on row
#pragma xmp loop on t(*,i)
  for (i = 0; i < N; i++) CHECK(w[i] == 3 * i + 300);
#pragma xmp gmove
  q[:] = w[:];
#pragma xmp loop on t(i,*)
  for (i = 0; i < N; i++) CHECK(q[i] == 3 * i + 300);
#pragma xmp barrier on row
#pragma xmp task on proc(:,1)
  CHECK(xmp_num_nodes() == 3 && me <= 3);
  return wrong != 0;
}
