/* nodes: 4 */
/* Finite elements: each node of the machine adds its elements to the points around them, and what lies in the shadow goes back to its owners. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 13
#pragma xmp nodes p[*]
#pragma xmp nodes grid[2][2]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
#pragma xmp template g[N][N]
#pragma xmp distribute g[block][block] onto grid
double load[N];
int points[N][N];
#pragma xmp align load[i] with t[i]
#pragma xmp shadow load[0:1]
#pragma xmp align points[i][j] with g[i][j]
#pragma xmp shadow points[0:1][0:1]

int main(void)
{
  double sum = 0;
  int i, j, k, want[N][N] = {{0}}, all[N][N];
#pragma xmp loop on t[i] expand(0:1)
  for (i = 0; i < N; i++) load[i] = 0;
#pragma xmp loop on t[i]
  for (i = 0; i < N - 1; i++) { load[i] += .5; load[i + 1] += .5; }
#pragma xmp reduce_shadow (load)
#pragma xmp loop on t[i] reduction(+:sum)
  for (i = 0; i < N; i++) { CHECK(load[i] == (i == 0 || i == N - 1 ? .5 : 1)); sum += load[i]; }
  CHECK(sum == N - 1);
#pragma xmp loop on g[i][j] expand(0:1, 0:1)
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) points[i][j] = 0;
#pragma xmp loop on g[i][j]
  for (i = 0; i < N - 1; i++)
    for (j = 0; j < N - 1; j++)
      for (k = 0; k < 4; k++) points[i + k / 2][j + k % 2] += i * 3 + j + k;
#pragma xmp reduce_shadow (points) width(0:1, 0:1)
  for (i = 0; i < N - 1; i++) for (j = 0; j < N - 1; j++) for (k = 0; k < 4; k++) want[i + k / 2][j + k % 2] += i * 3 + j + k;
#pragma xmp gmove
  all[:][:] = points[:][:];
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) CHECK(all[i][j] == want[i][j]);
  return wrong != 0;
}
