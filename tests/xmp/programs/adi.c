/* nodes: 3 */
/* Alternating directions: tridiagonal systems along rows, then, after a gmove to an array that is spread the other way, along columns. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 14
#define M 11
#define STEPS 4
#pragma xmp nodes p(*)
#pragma xmp template t(0:M-1,0:N-1)
#pragma xmp distribute t(*,block) onto p
#pragma xmp template s(0:M-1,0:N-1)
#pragma xmp distribute s(block,*) onto p
double a[N][M], b[N][M];
#pragma xmp align a[i][j] with t(j,i)
#pragma xmp align b[i][j] with s(j,i)

static void solve(int n, double *x, int step)
{
  double c[32];
  c[0] = -.5 / 2;
  x[0] /= 2;
  for (int i = 1; i < n; i++) {
    double d = 2 + .5 * c[i - 1];
    c[i] = -.5 / d;
    x[i * step] = (x[i * step] + .5 * x[(i - 1) * step]) / d;
  }
  for (int i = n - 2; i >= 0; i--) x[i * step] -= c[i] * x[(i + 1) * step];
}

int main(void)
{
  static double u[N][M];
  double line[N], off = 0;
  int i, j, k;
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) u[i][j] = sin(i) * j;
#pragma xmp loop (i) on t(*,i)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[i][j] = sin(i) * j;
  for (k = 0; k < STEPS; k++) {
#pragma xmp loop on t(:,i)
    for (i = 0; i < N; i++) solve(M, a[i], 1);
#pragma xmp gmove
    b[:][:] = a[:][:];
#pragma xmp loop on s(j,*)
    for (j = 0; j < M; j++) {
      for (i = 0; i < N; i++) line[i] = b[i][j];
      solve(N, line, 1);
      for (i = 0; i < N; i++) b[i][j] = line[i];
    }
#pragma xmp gmove
    a[0:N][0:M] = b[0:N][0:M];
    for (i = 0; i < N; i++) solve(M, u[i], 1);
    for (j = 0; j < M; j++) solve(N, &u[0][j], M);
  }
#pragma xmp loop (i,j) on t(j,i) reduction(max:off)
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++)
      if (fabs(a[i][j] - u[i][j]) > off) off = fabs(a[i][j] - u[i][j]);
  CHECK(off < 1e-13);
  return wrong != 0;
}
