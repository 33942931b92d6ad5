/* nodes: 4 */
/* Arrays that every node has whole, dimensions with one node, and what directives do with them. */
#include <xmp.h>
#include "check.h"
#define N 8
#define M 5
#pragma xmp nodes p[4]
#pragma xmp nodes one[4][1]
#pragma xmp template t[N]
#pragma xmp template u[N][M]
#pragma xmp template l(:,:)
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[block][block] onto one
#pragma xmp distribute l(*,cyclic) onto p
double r[N], rr[N][M], a[N][M], b[N][M], e[N];
double (*dyn)[M];
#pragma xmp align r[*] with t[*]
#pragma xmp align rr[*][*] with t[*]
#pragma xmp align a[i][j] with u[i][j]
#pragma xmp align b[*][j] with u[*][j]
#pragma xmp align e[i] with t[i]
#pragma xmp align dyn[i][j] with l(j,i)
#pragma xmp shadow r[1]
#pragma xmp shadow rr[0][2]
#pragma xmp shadow a[1][1]
#pragma xmp shadow b[*][1:0]
#pragma xmp shadow dyn[0][1]
static double whole(double x[N][M], int n)
{
#pragma xmp align x[*][j] with u[*][j]
#pragma xmp shadow x[*][1:0]
  double s = 0;
  int i, j;
  for (i = 0; i < n; i++) {
#pragma xmp loop on u[*][j]
    for (j = 0; j < M; j++) s += x[i][j];
  }
  return s;
}
int main(void)
{
  int i, j, v, w, me = xmpc_node_num();
  double s = 0, all[N][M];
  for (i = 0; i < N; i++) {
    r[i] = i;
    for (j = 0; j < M; j++) rr[i][j] = 10 * i + j;
  }
#pragma xmp reflect (r) width(/periodic/1)
  CHECK(r[-1] == N - 1 && r[N] == 0);
#pragma xmp reflect (r)
#pragma xmp reflect (rr) width(0, /periodic/2) orthogonal
  CHECK(rr[3][-2] == 33 && rr[3][M + 1] == 31);
#pragma xmp reduce_shadow (r)
  CHECK(r[0] == 0 && r[N - 1] == N - 1);
  CHECK(xmp_array_lsize(xmp_desc_of(r), 1, &v) == 0 && v == N);
  CHECK(xmp_array_gcllbound(xmp_desc_of(r), 1) == 0 && xmp_array_gclubound(xmp_desc_of(r), 1) == N - 1);
  CHECK(xmp_align_replicated(xmp_desc_of(r), 1, &v) == 0 && v == 1);
  CHECK(xmp_array_lshadow(xmp_desc_of(rr), 2, &v) == 0 && v == 2);
  { int at[2] = {7, 4}; CHECK(xmp_array_owner(xmp_desc_of(rr), 2, at, 0) == 0 && xmp_array_owner(xmp_desc_of(rr), 2, at, 1) == 0);
    CHECK(xmp_array_gtol(xmp_desc_of(rr), at, at) == 0 && at[0] == 7 && at[1] == 6); }
  CHECK(xmp_dist_blocksize(xmp_desc_of(u), 1, &v) == 0 && v == M);
#pragma xmp loop on u[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) a[i][j] = 100 * i + j;
#pragma xmp reflect (a) width(1, /periodic/1)
#pragma xmp loop on u[i][*]
  for (i = 0; i < N; i++) CHECK(a[i][-1] == 100 * i + M - 1 && a[i][M] == 100 * i);
#pragma xmp gmove
  b[:][:] = a[:][:];
  s = whole(b, N);
  CHECK(s == 100 * M * (N * (N - 1) / 2) + N * (M * (M - 1) / 2));
#pragma xmp reflect (b)
#pragma xmp gmove
  rr[:][1] = a[:][2];
  CHECK(rr[6][1] == 602 && rr[6][2] == 62);
#pragma xmp gmove
  r[:] = e[:];
  CHECK(r[7] == 0);
#pragma xmp gmove
  r[2:3] = rr[6][0:3];
  CHECK(r[2] == 60 && r[3] == 602 && r[4] == 62);
#pragma xmp gmove
  e[:] = r[:];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(e[i] == r[i]);
#pragma xmp gmove
  s = r[3];
  CHECK(s == 602);
#pragma xmp gmove
  r[0] = me * 0 + 4;
  CHECK(r[0] == 4);
#pragma xmp gmove in
  r[5:2] = a[(me * 2 + 3) % N][1:2];
  CHECK(r[6] == 100 * ((me * 2 + 3) % N) + 2);
#pragma xmp template_fix(*, cyclic) l(0:M-1, 0:N-1)
  dyn = (double (*)[M])xmp_malloc(xmp_desc_of(dyn), N, M);
#pragma xmp loop (i,j) on l(j,i)
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) dyn[i][j] = i * j;
#pragma xmp reflect (dyn) width(0, /periodic/1)
#pragma xmp loop on l(:,i)
  for (i = 0; i < N; i++) CHECK(dyn[i][-1] == i * (M - 1) && dyn[i][M] == 0);
  CHECK(xmp_array_lsize(xmp_desc_of(dyn), 2, &v) == 0 && v == M && xmp_array_lsize(xmp_desc_of(dyn), 1, &w) == 0 && w == 2);
  CHECK(xmp_template_lsize(xmp_desc_of(l), 1) == M && xmp_dist_axis(xmp_desc_of(l), 1, &v) == 0 && v == 0);
#pragma xmp gmove
  all[:][:] = dyn[:][:];
  CHECK(all[7][4] == 28);
  v = 0;
#pragma xmp task on l(*,2)
  v = 1;
#pragma xmp task on l(1:2,2)
  v++;
  CHECK(v == (me == 2 ? 2 : 0));
  v = 1;
#pragma xmp reduction(+:v) on u[:][*]
  CHECK(v == 4);
#pragma xmp loop on u[i][2]
  for (i = 0; i < N; i++) v += 0;
#pragma xmp loop (i) on l(0:3,i)
  for (i = 0; i < N; i++) v += 0;
#pragma xmp loop on u[*][j] expand(0,0)
  for (j = 0; j < M; j++) v += 0;
#pragma xmp array on u[:][0:M]
  a[:][:] = b[:][:] + 1;
#pragma xmp loop on u[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) CHECK(a[i][j] == 100 * i + j + 1);
#pragma xmp bcast (rr) from p[2]
#pragma xmp reduction(max:r) on p
  return wrong != 0;
}
