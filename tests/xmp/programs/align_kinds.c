/* nodes: 4 */
/* Alignment: offset, permuted, collapsed, replicated; combined forms; a block-scope array. */
#include <xmp.h>
#include "check.h"
#define N 8
#define M 6
#pragma xmp nodes p(2,2)
#pragma xmp template t(0:M+1,0:N)
#pragma xmp distribute t(block,block) onto p
int a[N][M], b[M][N], c[N], d[N][3][M];
#pragma xmp align a[i][j] with t(j+2,i+1)
#pragma xmp align b[j][i] with t(j,i)
#pragma xmp align c[i] with t(*,i)
#pragma xmp align d[i][*][j] with t(j,i)
int main(void)
{
  int i, j, k, sum = 0;
#pragma xmp loop (i,j) on t(j+2,i+1)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[i][j] = 10 * i + j;
#pragma xmp loop (i,j) on t(j,i)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) {
    b[j][i] = 10 * i + j;
    for (k = 0; k < 3; k++) d[i][k][j] = 100 * k + 10 * i + j;
  }
#pragma xmp loop (i) on t(*,i)
  for (i = 0; i < N; i++) c[i] = i;
#pragma xmp loop (i,j) on t(j,i) reduction(+:sum)
  for (j = 0; j < M; j++) for (i = 0; i < N; i++) {
    CHECK(b[j][i] == 10 * i + j && d[i][2][j] == 200 + 10 * i + j && c[i] == i);
    sum += b[j][i];
  }
  CHECK(sum == 6 * 280 + 8 * 15);
  sum = 0;
#pragma xmp loop (i,j) on t(j+2,i+1) reduction(+:sum)
  for (j = 0; j < M; j++) for (i = 0; i < N; i++) sum += a[i][j] - 10 * i - j + 1;
  CHECK(sum == N * M);
  {
    double local[N][M];
#pragma xmp align local[i][j] with t(j,i)
#pragma xmp shadow local[1][1]
    double worst = 0;
#pragma xmp loop (i,j) on t(j,i)
    for (i = 0; i < N; i++) for (j = 0; j < M; j++) local[i][j] = i + 0.5 * j;
#pragma xmp reflect (local)
#pragma xmp loop (i,j) on t(j,i) reduction(max:worst)
    for (i = 1; i < N - 1; i++) for (j = 1; j < M - 1; j++) {
      double e = local[i-1][j] + local[i+1][j] + local[i][j-1] + local[i][j+1] - 4 * local[i][j];
      if (e < 0) e = -e;
      if (e > worst) worst = e;
    }
    CHECK(worst < 1e-12);
  }
  return wrong != 0;
}
