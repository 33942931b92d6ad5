/* nodes: 4 */
/* Gaussian elimination with columns dealt out in turn: the pivot is looked for by its owner, and the column goes to all by gmove. */
#include <math.h>
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
static const int N = 23;
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[cyclic] onto p
double a[N][N];
#pragma xmp align a[*][j] with t[j]

static double entry(int i, int j) { return i == j ? 0.25 : cos(i * 3.1 + j * j); }

int main(void)
{
  double column[N], x[N], b[N], off = 0;
  int order[N], i, j, k;
#pragma xmp loop on t[j]
  for (j = 0; j < N; j++) for (i = 0; i < N; i++) a[i][j] = entry(i, j);
  for (i = 0; i < N; i++) { order[i] = i; b[i] = 0; for (j = 0; j < N; j++) b[i] += entry(i, j) * (j - 4); }
  for (k = 0; k < N; k++) {
    int pivot = k;
    double swapped;
#pragma xmp gmove
    column[:] = a[:][k];
    for (i = k + 1; i < N; i++) if (fabs(column[i]) > fabs(column[pivot])) pivot = i;
#pragma xmp loop on t[j]
    for (j = 0; j < N; j++) { double h = a[k][j]; a[k][j] = a[pivot][j]; a[pivot][j] = h; }
    swapped = column[k]; column[k] = column[pivot]; column[pivot] = swapped;
    swapped = b[k]; b[k] = b[pivot]; b[pivot] = swapped;
    i = order[k]; order[k] = order[pivot]; order[pivot] = i;
    for (i = k + 1; i < N; i++) {
      double factor = column[i] / column[k];
#pragma xmp loop (j) on t[j]
      for (j = k; j < N; j++) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (i = N - 1; i >= 0; i--) {
    double sum = 0, diagonal;
#pragma xmp loop on t[j] reduction(+:sum)
    for (j = i + 1; j < N; j++) sum += a[i][j] * x[j];
#pragma xmp gmove
    diagonal = a[i][i];
    x[i] = (b[i] - sum) / diagonal;
  }
  for (i = 0; i < N; i++) off = fmax(off, fabs(x[i] - (i - 4)));
  CHECK(off < 1e-9);
  return wrong != 0;
}
