/* nodes: 6 */
/* Nests of loops on templates in both notations: permuted, triangular, one distributed inside another, by steps, with offsets and collapsed dimensions. */
#include <xmp.h>
#include "check.h"
#define N 13
#define M 10
#pragma xmp nodes p(2,3)
#pragma xmp nodes q[6]
#pragma xmp template t(0:M-1,0:N-1)
#pragma xmp distribute t(cyclic,block) onto p
#pragma xmp template s[N][M]
#pragma xmp distribute s[block][cyclic(2)] onto p
#pragma xmp template line(1:N)
#pragma xmp distribute line(cyclic(3)) onto q
int a[N][M], b[N][M], c[M][N], d[N], all[N][M];
#pragma xmp align a[i][j] with t(j,i)
#pragma xmp align b[i][j] with s[i][j]
#pragma xmp align c[j][i] with t(j,i)
#pragma xmp align d[i] with line(i+1)

int main(void)
{
  int i, j, n = 0;
#pragma xmp loop (i,j) on t(j,i) reduction(+:n)
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) { a[i][j] = i * 100 + j; n++; }
  CHECK(n == N * M);
#pragma xmp loop (j,i) on t(j,i)
  for (j = M - 1; j >= 0; j--)
    for (i = 0; i < N; i++) c[j][i] = a[i][j] + 1;
  n = 0;
  /* A triangle. */
#pragma xmp loop (i,j) on s[i][j] reduction(+:n)
  for (i = 0; i < N; i++)
    for (j = i; j < M; j++) { b[i][j] = 1; n += i + j; }
  {
    int want = 0;
    for (i = 0; i < N; i++) for (j = i; j < M; j++) want += i + j;
    CHECK(n == want);
  }
#pragma xmp gmove
  all[:][:] = b[:][:];
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) CHECK(all[i][j] == (j >= i));
#pragma xmp gmove
  b[:][:] = a[:][:];
  /* The inner loop has a directive of its own, and something stands between them. */
  n = 0;
#pragma xmp loop on s[i][*]
  for (i = 1; i < N; i += 3) {
    int row = 0;
#pragma xmp loop on s[i][j]
    for (j = 0; j < M; j += 2) { row += b[i][j]; b[i][j] = -1; }
    n += row;
  }
#pragma xmp reduction(+:n)
  {
    int want = 0;
    for (i = 1; i < N; i += 3) for (j = 0; j < M; j += 2) want += i * 100 + j;
    CHECK(n == want);
  }
  n = 0;
#pragma xmp loop on line(i+1) reduction(+:n)
  for (i = 0; i < N; ++i) { d[i] = i; n += d[i]; }
  CHECK(n == N * (N - 1) / 2);
#pragma xmp loop on line(i) reduction(max:n)
  for (i = N; i >= 1; i -= 4) { d[i - 1] = 1000 + i; if (d[i - 1] > n) n = d[i - 1]; }
  CHECK(n == 1000 + N);
  {
    int local[N];
#pragma xmp gmove
    local[:] = d[:];
    for (i = 0; i < N; i++) CHECK(local[i] == ((N - i - 1) % 4 == 0 ? 1001 + i : i));
  }
  n = 0;
#pragma xmp loop (j) on t(j,4) reduction(+:n)
  for (j = 0; j < M; j++) n += a[4][j];
  {
    int seen = 0;
#pragma xmp task on t(:,4)
    seen = 1;
    CHECK(!seen || n == 4000 + M * (M - 1) / 2);
  }
#pragma xmp gmove
  all[:][:] = a[:][:];
  {
    int other[M][N];
#pragma xmp gmove
    other[:][:] = c[:][:];
    for (i = 0; i < N; i++) for (j = 0; j < M; j++) CHECK(other[j][i] == all[i][j] + 1);
  }
  return wrong != 0;
}
