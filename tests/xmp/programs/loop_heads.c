/* nodes: 4
   The first part of a `for` sets more than its variable: once, on all nodes, and for an inner loop once for each iteration around it. */
#include <xmp.h>
#include "check.h"
#define N 22
#pragma xmp nodes p[4]
#pragma xmp nodes g[2][2]
#pragma xmp template t[N]
#pragma xmp template c[N]
#pragma xmp template w[N]
#pragma xmp template s[N][N]
#pragma xmp template k[N][N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute c[cyclic] onto p
#pragma xmp distribute w[cyclic(3)] onto p
#pragma xmp distribute s[block][cyclic(3)] onto g
#pragma xmp distribute k[*][block] onto p
int a[N], b[N], d[N], m[N][N], r[N][N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with c[i]
#pragma xmp align d[i] with w[i]
#pragma xmp align m[i][j] with s[i][j]
#pragma xmp align r[i][j] with k[i][j]

static int calls;

static int called(void) { return ++calls; }

int main(void)
{
  int i, j, n, sum, first;

  /* The other is set on all nodes, also where there is no iteration. */
#pragma xmp loop on t[i]
  for (i = 0, n = 7; i < N; i++) a[i] = i + n;
  CHECK(n == 7);
#pragma xmp loop on c[i]
  for (n = N, i = 0; i < n; i++) b[i] = i + n;
#pragma xmp loop on w[i]
  for (int i = 0, k = 2, *q = &n; i < N; i++) d[i] = i * k + *q;
  sum = 0;
#pragma xmp loop on t[i] reduction(+:sum)
  for (i = N - 1, first = called(); i >= 0; i--) sum += a[i] + first;
  CHECK(calls == 1 && sum == N * (N - 1) / 2 + 8 * N);

  /* Once, also where a node has several pieces. */
  sum = 0;
#pragma xmp loop on w[i] reduction(+:sum)
  for (i = 0, sum = 3; i < N; i++) sum += d[i];
  CHECK(sum == 3 + N * (N - 1) + N * N);
  sum = 0;
#pragma xmp loop on c[i] reduction(+:sum)
  for (i = 0; i < N; i++) sum += b[i];
  CHECK(sum == N * (N - 1) / 2 + N * N);

  /* The inner one, once for each iteration of the outer. */
#pragma xmp loop (i, j) on s[i][j]
  for (i = 0; i < N; i++)
    for (j = 0, n = i; j < N; j++) m[i][j] = n + j;
#pragma xmp loop (i, j) on s[i][j]
  for (int i = 0, two = 2; i < N; i++)
    for (int j = 0, end = i + 1; j < end; j++) m[i][j] *= two;
  sum = 0;
#pragma xmp loop (i, j) on s[i][j] reduction(+:sum)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) sum += m[i][j] != (j <= i ? 2 : 1) * (i + j);
  CHECK(sum == 0);

  /* The others are in the bounds of loops inside. */
#pragma xmp loop (i, j) on s[i][j]
  for (i = 0, n = N; i < n; i++)
    for (first = 1, j = first; j < n - first; j++) m[i][j] = 1;
  sum = 0;
#pragma xmp loop (i, j) on s[i][j] reduction(+:sum)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) sum += m[i][j] == 1;
  CHECK(sum >= N * (N - 2) && sum <= N * (N - 2) + 2);

  /* A dimension that is not distributed keeps its loop, with all steps. */
#pragma xmp loop (i, j) on k[i][j]
  for (j = 0; j < N; j++)
    for (i = 0, n = 5; i < N; i++, n += 2) r[i][j] = n;
  sum = 0;
#pragma xmp loop (i, j) on k[i][j] reduction(+:sum)
  for (j = 0; j < N; j++)
    for (i = 0; i < N; i++) sum += r[i][j] != 5 + 2 * i;
  CHECK(sum == 0);

  /* Two steps: iterations are no longer independent of each other, whatever the subscripts look like. */
  {
    int e[2 * N] = {0};
    for (int x = 0, y = 1; x < N; x++, y--) e[x + y] += x;
    CHECK(e[1] == N * (N - 1) / 2);
  }
  return wrong;
}
