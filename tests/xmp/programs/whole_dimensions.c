/* nodes: 4 */
/* Dimensions that are not spread, by `*` of align, of distribute or on one node, are whole everywhere. */
#include <xmp.h>
#include "check.h"
#define N 8
#define M 5
int map[4] = {1, 0, 4, 3};
#pragma xmp nodes p[4]
#pragma xmp nodes g[2][2]
#pragma xmp nodes one[4][1]
#pragma xmp template t[N][M]
#pragma xmp template s[N]
#pragma xmp template k[2][N]
#pragma xmp template r(1:N,1:M)
#pragma xmp distribute t[block][*] onto p
#pragma xmp distribute s[cyclic] onto p
#pragma xmp distribute k[*][gblock(map)] onto p
#pragma xmp distribute r(*,block) onto p
double a[N][M], b[N][M], w[M][N], three[3][N][M], x[M][N];
int c[N][M], d[2][N];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align b[i][*] with s[i]
#pragma xmp align w[*][i] with s[i]
#pragma xmp align three[*][i][j] with t[i][j]
#pragma xmp align c[i][*] with t[i][*]
#pragma xmp align d[i][j] with k[i][j]
#pragma xmp align x[j][i] with r(i+1,j+1)
#pragma xmp shadow a[1][1]
#pragma xmp shadow b[0][1:2]
#pragma xmp shadow c[1][*]
#pragma xmp shadow three[1][1][0]

int main(void)
{
  int i, j, v, u, me = xmpc_node_num(), local[M], row[3][N][M];
  xmp_desc_t dt = 0;
#pragma xmp loop (i,j) on t[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) a[i][j] = 10 * i + j, c[i][j] = i - j;
  /* Questions. */
  CHECK(xmp_array_lbound(xmp_desc_of(a), 2, &v) == 0 && v == 0);
  CHECK(xmp_array_ubound(xmp_desc_of(a), 2, &v) == 0 && v == M - 1);
  CHECK(xmp_array_lsize(xmp_desc_of(a), 2, &v) == 0 && v == M);
  CHECK(xmp_array_lsize(xmp_desc_of(b), 2, &v) == 0 && v == M);
  CHECK(xmp_array_lsize(xmp_desc_of(w), 1, &v) == 0 && v == M);
  CHECK(xmp_array_lsize(xmp_desc_of(three), 1, &v) == 0 && v == 3);
  CHECK(xmp_array_lshadow(xmp_desc_of(b), 2, &v) == 0 && v == 1);
  CHECK(xmp_array_ushadow(xmp_desc_of(b), 2, &v) == 0 && v == 2);
  CHECK(xmp_array_lshadow(xmp_desc_of(c), 2, &v) == 0 && v == 0);
  CHECK(xmp_array_ushadow(xmp_desc_of(c), 2, &v) == 0 && v == 0);
  CHECK(xmp_array_gcllbound(xmp_desc_of(b), 2) == 0 && xmp_array_gclubound(xmp_desc_of(b), 2) == M - 1);
  CHECK(xmp_array_lcllbound(xmp_desc_of(b), 2) == 1 && xmp_array_lclubound(xmp_desc_of(b), 2) == M);
  CHECK(xmp_array_gsize(xmp_desc_of(w), 1) == M);
  CHECK(xmp_align_axis(xmp_desc_of(b), 1, &v) == 0 && v == 1);
  CHECK(xmp_align_axis(xmp_desc_of(b), 2, &v) == 0 && xmp_align_offset(xmp_desc_of(b), 2, &u) == 0);
  CHECK(xmp_align_axis(xmp_desc_of(w), 1, &v) == 0 && xmp_align_offset(xmp_desc_of(w), 1, &u) == 0);
  CHECK(xmp_align_replicated(xmp_desc_of(c), 1, &v) == 0 && v == 1);
  CHECK(xmp_align_template(xmp_desc_of(a), &dt) == 0);
  CHECK(xmp_template_lbound(dt, 1, &v) == 0 && v == 0 && xmp_template_ubound(dt, 1, &v) == 0 && v == M - 1);
  CHECK(xmp_template_gsize(dt, 1) == M && xmp_template_lsize(dt, 1) == M);
  CHECK(xmp_dist_format(dt, 1, &v) == 0 && v == 2100);
  CHECK(xmp_dist_blocksize(dt, 1, &v) == 0 && v == M);
  CHECK(xmp_dist_axis(dt, 1, &v) == 0 && v == 0);
  CHECK(xmp_dist_blocksize(xmp_desc_of(k), 2, &v) == 0 && v == 2);
  { int index[2] = {3, 4}, lead[2], place[2] = {me * 2, 4};
    CHECK(xmp_array_owner(xmp_desc_of(a), 2, index, 2) == 0);
    CHECK(xmp_array_owner(xmp_desc_of(a), 2, index, 1) == 1);
    CHECK(xmp_array_lead_dim(xmp_desc_of(b), lead) == 0 && lead[1] == M + 3);
    CHECK(xmp_array_gtol(xmp_desc_of(a), place, lead) == 0 && lead[0] == 1 && lead[1] == 5); }
  xmp_sched_template_index(&v, &u, 0, M, 1, xmp_desc_of(t), 0);
  /* Loops. */
  v = 0;
#pragma xmp loop (j) on t[*][j] reduction(+:v)
  for (j = 0; j < M; j++) v++;
  CHECK(v == M * 4 || v == M);
  v = 0;
#pragma xmp loop on t[:][j]
  for (j = 1; j < M; j += 2) v += j;
  CHECK(v == 4);
#pragma xmp loop (i,j) on s[i]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) b[i][j] = i + j;
#pragma xmp loop (i,j) on r(i,j)
  for (j = 1; j <= M; j++)
    for (i = 1; i <= N; i++) { }
  /* Shadows. */
#pragma xmp reflect (a)
#pragma xmp reflect (a) width(1, /periodic/1)
#pragma xmp loop on t[i][*]
  for (i = 0; i < N; i++) CHECK(a[i][-1] == 10 * i + M - 1 && a[i][M] == 10 * i);
#pragma xmp reflect (b) width(0, /periodic/1:2)
#pragma xmp loop on s[i]
  for (i = 0; i < N; i++) CHECK(b[i][-1] == i + M - 1 && b[i][M] == i && b[i][M + 1] == i + 1);
#pragma xmp reflect (c, three)
#pragma xmp reflect (three) width(/periodic/1, 1, 0)
#pragma xmp reflect (b)
#pragma xmp reduce_shadow (b) width(0, /periodic/1)
  /* gmove. */
#pragma xmp loop on s[i]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) b[i][j] = i + j;
#pragma xmp gmove
  b[:][0:3] = a[:][2:3];
#pragma xmp loop on s[i]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) CHECK(b[i][j] == (j < 3 ? 10 * i + j + 2 : i + j));
#pragma xmp gmove
  w[1][:] = a[:][3];
#pragma xmp gmove
  w[2:2][:] = d[:][:];
#pragma xmp loop on s[i]
  for (i = 0; i < N; i++) CHECK(w[1][i] == 10 * i + 3 && w[2][i] == 0 && w[0][i] == 0);
#pragma xmp gmove
  a[2][:] = a[5][:];
#pragma xmp gmove
  local[:] = a[2][:];
  for (j = 0; j < M; j++) CHECK(local[j] == 50 + j);
#pragma xmp gmove
  three[2][:][:] = c[:][:];
#pragma xmp gmove
  row[:][:][:] = three[:][:][:];
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) CHECK(row[2][i][j] == i - j && row[0][i][j] == 0);
#pragma xmp gmove
  a[:][4] = a[:][0];
#pragma xmp loop on t[i][*]
  for (i = 0; i < N; i++) CHECK(a[i][4] == 10 * (i == 2 ? 5 : i));
#pragma xmp gmove in
  local[0:2] = a[7 - me][1:2];
#pragma xmp gmove out
  d[1][0] = c[3][0];
#pragma xmp gmove
  v = d[1][0];
  CHECK(v == 3);
  /* Whole arrays and sections in array assignments and reductions. */
#pragma xmp array on t[0:N][0:M]
  a[:][:] = 1;
#pragma xmp array on t[0:N][*]
  a[:][2] = 2;
#pragma xmp loop on t[i][*]
  for (i = 0; i < N; i++) CHECK(a[i][1] == 1 && a[i][2] == 2);

  return wrong != 0;
}
