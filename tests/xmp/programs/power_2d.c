/* nodes: 6 */
/* The largest eigenvalue of a matrix on a grid of nodes: vectors along rows and along columns, sums over a row of the grid, gmove from one to the other. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 17
#pragma xmp nodes p(2,*)
#pragma xmp nodes row(2) = p(:,*)
#pragma xmp nodes column(3) = p(*,:)
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp distribute t(block,block) onto p
double a[N][N], x[N], y[N];
#pragma xmp align a[i][j] with t(j,i)
#pragma xmp align x[j] with t(j,*)
#pragma xmp align y[i] with t(*,i)

static double entry(int i, int j) { return 1. / (1 + (i > j ? i - j : j - i)) + (i == j ? i * .1 : 0); }

int main(void)
{
  double norm = 0, v[N], w[N], want = 0;
  int i, j, k, count;
#pragma xmp loop (i,j) on t(j,i)
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) a[i][j] = entry(i, j);
#pragma xmp loop on t(j,*)
  for (j = 0; j < N; j++) x[j] = 1;
  for (j = 0; j < N; j++) v[j] = 1;
  for (k = 0; k < 20; k++) {
#pragma xmp loop on t(*,i)
    for (i = 0; i < N; i++) y[i] = 0;
#pragma xmp loop (i,j) on t(j,i)
    for (i = 0; i < N; i++) for (j = 0; j < N; j++) y[i] += a[i][j] * x[j];
#pragma xmp reduction(+:y) on row
    norm = 0;
#pragma xmp loop on t(*,i) reduction(+:norm)
    for (i = 0; i < N; i++) norm += y[i] * y[i];
    norm = sqrt(norm);
#pragma xmp gmove
    x[:] = y[:];
#pragma xmp loop on t(j,*)
    for (j = 0; j < N; j++) x[j] /= norm;
    want = 0;
    for (i = 0; i < N; i++) { w[i] = 0; for (j = 0; j < N; j++) w[i] += entry(i, j) * v[j]; want += w[i] * w[i]; }
    want = sqrt(want);
    for (i = 0; i < N; i++) v[i] = w[i] / want;
  }
  CHECK(fabs(norm - want) < 1e-10);
  count = 1;
#pragma xmp reduction(+:count) on column
  CHECK(count == 3);
  count = 1;
#pragma xmp reduction(+:count) on p(1,:)
  CHECK(count == (xmpc_node_num() % 2 == 0 ? 3 : 1));
#pragma xmp barrier on p(*,:)
#pragma xmp gmove
  w[:] = x[:];
  for (i = 0; i < N; i++) CHECK(fabs(w[i] - v[i]) < 1e-10);
  return wrong != 0;
}
