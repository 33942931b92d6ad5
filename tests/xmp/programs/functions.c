/* nodes: 4 */
/* Distributed arrays as arguments, in the three ways to write the parameter; block-scope arrays in functions. */
#include <xmp.h>
#include "check.h"
#define N 14
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double x[N], y[N], z[N][3];
#pragma xmp align [i] with t[i] :: x, y
#pragma xmp align z[i][*] with t[i]
#pragma xmp shadow x[1]
static void fill(double v[N], int n, double factor)
{
#pragma xmp align v[i] with t[i]
#pragma xmp shadow v[1]
  int i;
#pragma xmp loop on t[i]
  for (i = 0; i < n; i++) v[i] = factor * i;
#pragma xmp reflect (v)
}
static double dot(double *u, double v[])
#pragma xmp align u[i] with t[i]
#pragma xmp shadow u[1]
#pragma xmp align v[i] with t[i]
#pragma xmp static_desc :: u, v
{
  double s = 0;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < N; i++) s += u[i] * v[i];
  return s;
}
static double trace(m) double (*m)[3];
{
#pragma xmp align m[i][*] with t[i]
  double s = 0;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < N; i++) s += m[i][i % 3];
  return s;
}
static int local_sum(const double *q, int n) { int i; double s = 0; for (i = 0; i < n; i++) s += q[i]; return (int)s; }
int main(void)
{
  int i, n;
  fill(x, N, 2.0);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    y[i] = 1;
    for (n = 0; n < 3; n++) z[i][n] = n;
    CHECK(local_sum(z[i], 3) == 3);
    CHECK(local_sum(&z[i][1], 2) == 3);
  }
#pragma xmp loop on t[i]
  for (i = 1; i < N - 1; i++) CHECK(x[i - 1] == 2 * i - 2 && x[i + 1] == 2 * i + 2);
  CHECK(dot(x, y) == N * (N - 1));
  CHECK(trace(z) == 13);
  CHECK(sizeof(y) == N * sizeof(double));
  xmp_array_lsize(xmp_desc_of(y), 1, &n);
  CHECK(local_sum(y, n) == n);
  return wrong != 0;
}
