/* nodes: 4 */
/* Sections wherever they may stand: of local arrays and pointers, of distributed ones under directives, with strides both ways and functions of elements. */
#include <math.h>
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
#define N 12
#define M 8
#pragma xmp nodes p[2][2]
#pragma xmp template t[N][M]
#pragma xmp distribute t[block][cyclic] onto p
double a[N][M], b[N][M], c[M], z[2][N];
#pragma xmp align [i][j] with t[i][j] :: a, b
#pragma xmp align c[j] with t[*][j]
float co[N]:[*];

int main(void)
{
  double l[N][M], v[M], *heap = malloc(N * sizeof *heap);
  int i, j, n = 5, me = xmpc_node_num();
#pragma xmp array on t[0:N][0:M]
  a[0:N][0:M] = 4;
#pragma xmp array on t[2:5][1:3:2]
  a[2:5][1:3:2] = sqrt(a[2:5][1:3:2]) * n + b[2:5][1:3:2];
#pragma xmp gmove
  l[:][:] = a[:][:];
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) CHECK(l[i][j] == (i >= 2 && i < 7 && (j == 1 || j == 3 || j == 5) ? 10 : 4));
  l[0:3][:] = l[6:3:-1][:] + l[0:3][:] * 2;
  CHECK(l[0][1] == 18 && l[2][0] == 12 && l[2][3] == 10 + 20);
  heap[0:N] = 1;
  heap[1:N-1] = heap[0:N-1] + heap[1:N-1];
  CHECK(heap[0] == 1 && heap[N - 1] == 2);
  v[:] = l[3][:];
  v[M-1:M:-1] = v[:];
  CHECK(v[M - 2] == l[3][1] && v[0] == l[3][M - 1]);
#pragma xmp gmove
  b[:][:] = l[:][:];
#pragma xmp gmove
  a[N-1:6:-2][0:M] = b[0:6][0:M];
#pragma xmp gmove
  z[1][0:6] = a[1:6:2][1];
  for (i = 0; i < 6; i++) CHECK(z[1][i] == l[5 - i][1]);
#pragma xmp gmove
  c[:] = a[1][:];
#pragma xmp loop on t[*][j]
  for (j = 0; j < M; j++) CHECK(c[j] == l[5][j]);
#pragma xmp gmove
  b[2][0:4] = b[2][4:4];
#pragma xmp gmove
  v[:] = b[2][:];
  for (j = 0; j < 4; j++) CHECK(v[j] == l[2][4 + j]);
  co[0:N] = me;
#pragma xmp barrier
  co[1:4:3]:[(me + 1) % 4] = heap[0:4] + 2 * me;
  xmp_sync_all(NULL);
  CHECK(co[0] == me && co[1] == 1 + 2 * ((me + 3) % 4) && co[10] == 2 + 2 * ((me + 3) % 4) && co[11] == me);
  xmp_sync_all(NULL);
  heap[0:4] = co[1:4:3]:[me ^ 1] * 2;
  CHECK(heap[0] == 2 * (1 + 2 * (((me ^ 1) + 3) % 4)));
#pragma xmp loop (i, j) on t[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) a[i][j] = i + j / 10.;
#pragma xmp array on t[1:N-1][:]
  b[1:N-1][:] = fmax(a[1:N-1][:], 5.0) - (double)n;
#pragma xmp gmove
  l[:][:] = b[:][:];
  CHECK(l[4][3] == 0 && fabs(l[9][5] - 4.5) < 1e-12);
  free(heap);
  return wrong != 0;
}
