/* nodes: 4 */
/* Nests that are not simple: code between loops, bounds that depend on outer variables, one directive a loop, loops between. */
#include <xmp.h>
#include "check.h"
#define N 10
#pragma xmp nodes p[2][2]
#pragma xmp template t[N][N]
#pragma xmp template u[N][N]
#pragma xmp distribute t[block][block] onto p
#pragma xmp distribute u[cyclic][cyclic(3)] onto p
int a[N][N], b[N][N];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align b[i][j] with u[i][j]
int main(void)
{
  int i, j, k, n = 0, rows = 0, once = 0;
#pragma xmp loop (i,j) on t[i][j] reduction(+:n)
  for (i = 0; i < N; i++)
    for (j = i; j < N; j++) { a[i][j] = 1; n++; }
  CHECK(n == N * (N + 1) / 2);
  n = 0;
#pragma xmp loop (i,j) on u[i][j] reduction(+:n)
  for (i = 0; i < N; i++)
    for (j = 0; j <= i; j++) { b[i][j] += 1; n++; }
  CHECK(n == N * (N + 1) / 2);
  n = 0;
#pragma xmp loop (i,j) on u[i][j] reduction(+:n)
  for (i = 0; i < N; i++) {
    int first = 1;
    rows++;
    for (j = 0; j < N; j++) { n += first; b[i][j] += 10; }
    once += first;
  }
  CHECK(n == N * N && rows == 5 && once == 5);
  n = 0;
#pragma xmp loop (i,j) on t[i][j] reduction(+:n)
  for (i = 0; i < N; i++) {
    int s = 0;
    for (j = 0; j < N; j++) s += a[i][j];
    n += s;
  }
  CHECK(n == 55);
  n = 0;
#pragma xmp loop on t[i][*]
  for (i = 0; i < N; i++) {
#pragma xmp loop on t[*][j]
    for (j = 0; j < N; j++) { a[i][j] = i * j; n++; }
  }
  CHECK(n == 25);
  n = 0;
#pragma xmp loop (i,j) on u[i][j] reduction(+:n)
  for (i = 0; i < N; i++)
    for (k = 0; k < 3; k++)
      for (j = 0; j < N; j++) { b[i][j] += k; n++; }
  CHECK(n == 3 * N * N);
#pragma xmp loop (i,j) on u[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) CHECK(b[i][j] == 13 + (j <= i));
#pragma xmp loop (i,j) on t[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) CHECK(a[i][j] == i * j);
  n = 0;
#pragma xmp loop (j) on t[3][j]
  for (j = 0; j < N; j++) n++;
  CHECK(n == (xmpc_node_num() < 2 ? 5 : 0));
  n = 0;
#pragma xmp loop on p[i][*]
  for (i = 0; i < 2; i++) { CHECK(i == xmpc_node_num() / 2); n++; }
  CHECK(n == 1);
#pragma xmp loop on p(i,*)
  for (i = 1; i <= 2; i++) CHECK(i == xmpc_node_num() % 2 + 1);
  return wrong != 0;
}
