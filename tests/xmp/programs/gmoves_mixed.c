/* nodes: 6 */
/* Gmoves between arrays on different nodes and templates, also within one array, turned round, by steps, without waiting. */
#include <xmp.h>
#include "check.h"
#define N 11
#define M 14
#pragma xmp nodes p[2][3]
#pragma xmp nodes q[6]
#pragma xmp nodes half[3] = q[3:3]
#pragma xmp template t1[N][M]
#pragma xmp distribute t1[block][block] onto p
#pragma xmp template t2[N][M]
#pragma xmp distribute t2[cyclic][cyclic(3)] onto p
#pragma xmp template t3[N]
int map[6] = { 0, 3, 0, 5, 3, 0 };
#pragma xmp distribute t3[gblock(map)] onto q
#pragma xmp template t4[M]
#pragma xmp distribute t4[block] onto half
int a[N][M], b[N][M], c[N], d[M], e[M][N], f[N][M];
#pragma xmp align a[i][j] with t1[i][j]
#pragma xmp align b[i][j] with t2[i][j]
#pragma xmp align c[i] with t3[i]
#pragma xmp align d[j] with t4[j]
#pragma xmp align e[j][i] with t1[i][j]
#pragma xmp align f[i][*] with t3[i]
#pragma xmp shadow a[1][2]
static void expect(int got[N][M], int (*want)(int, int)) { for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) CHECK(got[i][j] == want(i, j)); }
static int same(int i, int j) { return i * 100 + j; }
static int moved(int i, int j) { return i >= 2 && i < 8 && j >= 1 && j < 13 ? same(i - 1, j + 1) : same(i, j); }
int main(void)
{
  int i, j, l[N][M], v[M], s;
#pragma xmp loop (i, j) on t1[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[i][j] = same(i, j);
#pragma xmp gmove
  b[:][:] = a[:][:];
#pragma xmp gmove
  l[:][:] = b[:][:];
  expect(l, same);
#pragma xmp gmove
  b[2:6][1:12] = b[1:6][2:12];
#pragma xmp gmove
  l[:][:] = b[:][:];
  expect(l, moved);
#pragma xmp gmove
  c[:] = a[:][5];
#pragma xmp gmove
  v[0:N] = c[:];
  for (i = 0; i < N; i++) CHECK(v[i] == same(i, 5));
#pragma xmp gmove
  d[:] = b[9][:];
#pragma xmp gmove
  v[:] = d[:];
  for (j = 0; j < M; j++) CHECK(v[j] == same(9, j));
#pragma xmp gmove
  f[:][:] = a[:][:];
#pragma xmp gmove async(4)
  b[:][:] = f[:][:];
#pragma xmp wait_async (4)
#pragma xmp gmove
  l[:][:] = b[:][:];
  expect(l, same);
#pragma xmp loop (j, i) on t1[i][j]
  for (j = 0; j < M; j++) for (i = 0; i < N; i++) e[j][i] = a[i][j];
#pragma xmp gmove
  s = e[12][10];
  CHECK(s == same(10, 12));
#pragma xmp gmove
  e[0:M][3] = d[0:M];
#pragma xmp gmove
  v[:] = e[:][3];
  for (j = 0; j < M; j++) CHECK(v[j] == same(9, j));
#pragma xmp gmove
  a[0:6:2][M-1:7:-2] = l[0:6][0:7];
#pragma xmp gmove
  l[:][:] = a[:][:];
  for (i = 0; i < 6; i++) for (j = 0; j < 7; j++) CHECK(l[2 * i][M - 1 - 2 * j] == same(i, j));
#pragma xmp gmove
  a[4][4] = b[10][13];
#pragma xmp gmove
  s = a[4][4];
  CHECK(s == same(10, 13));
#pragma xmp gmove
  a[:][:] = -1;
#pragma xmp loop (i, j) on t1[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) CHECK(a[i][j] == -1);
  return wrong != 0;
}
