/* nodes: 2 */
/* flags: -fopenmp */
/* OpenMP beside the loop directive, in either order. */
#include <xmp.h>
#include "check.h"
#define N 1000
#pragma xmp nodes p[2]
#pragma xmp template t[N][N]
#pragma xmp distribute t[block][*] onto p
double a[N][N], v[N];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align v[i] with t[i][*]
int main(void)
{
  int i, j;
  double sum = 0;
#pragma xmp loop (i,j) on t[i][j]
#pragma omp parallel for private(j)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      a[i][j] = i + j;
#pragma omp parallel for reduction(+:sum) private(j)
#pragma xmp loop (i,j) on t[i][j] reduction(+:sum)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      sum += a[i][j];
  CHECK(sum == 1e6 * 999);
#pragma xmp loop (i,j) on t[i][j]
#pragma omp parallel for collapse(2)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      a[i][j] += 1;
#pragma xmp task on t[999][0]
  CHECK(a[999][7] == 1007);
#pragma omp parallel
  {
#pragma xmp loop (i) on t[i][*]
#pragma omp for
    for (i = 0; i < N; i++) v[i] = i;
  }
  sum = 0;
#pragma xmp loop (i) on t[i][*] reduction(+:sum)
#pragma omp parallel for reduction(+:sum)
  for (i = 0; i < N; i++) sum += v[i];
  CHECK(sum == 999 * 500);
  return wrong != 0;
}
