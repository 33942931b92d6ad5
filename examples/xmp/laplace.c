/* Laplace's equation on a square by Jacobi's method, XcalableMP in the global view.
 *
 *   kumiki xmpcc -O3 laplace.c -o laplace && kumiki run -n 4 ./laplace
 */
#include <math.h>
#include <stdio.h>
#include <xmp.h>
#ifndef N
#define N 128
#endif
#ifndef STEPS
#define STEPS 200
#endif
#pragma xmp nodes p[*][*]
#pragma xmp template t[N][N]
#pragma xmp distribute t[block][block] onto p
static double u[N][N], old[N][N];
#pragma xmp align u[i][j] with t[i][j]
#pragma xmp align old[i][j] with t[i][j]
#pragma xmp shadow old[1][1]

int main(void)
{
  double change = 0, sum = 0;
  int i, j, step;
#pragma xmp loop (i,j) on t[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      u[i][j] = i == 0 ? sin(3.14159265358979 * j / (N - 1)) : 0;
  for (step = 0; step < STEPS; step++) {
#pragma xmp loop (i,j) on t[i][j]
    for (i = 0; i < N; i++)
      for (j = 0; j < N; j++)
        old[i][j] = u[i][j];
#pragma xmp reflect (old) orthogonal
    change = 0;
#pragma xmp loop (i,j) on t[i][j] reduction(max:change)
    for (i = 1; i < N - 1; i++)
      for (j = 1; j < N - 1; j++) {
        u[i][j] = 0.25 * (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]);
        if (fabs(u[i][j] - old[i][j]) > change) change = fabs(u[i][j] - old[i][j]);
      }
  }
#pragma xmp loop (i,j) on t[i][j] reduction(+:sum)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      sum += u[i][j];
#pragma xmp task on p[0][0]
  printf("after %d steps: largest change %.6e, sum %.9f\n", STEPS, change, sum);
  return 0;
}
