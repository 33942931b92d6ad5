/* nodes: 4 */
/* Several loops with one variable under a directive, steps that go down, names that the translator could have taken, calls that allocate. */
#include <xmp.h>
#include "check.h"
#define N 8
#define DOWN (-1)
#pragma xmp nodes p[2][2]
#pragma xmp nodes q[4]
#pragma xmp template t[N][N]
#pragma xmp template l[N]
#pragma xmp distribute t[block][block] onto p
#pragma xmp distribute l[block] onto q
int a[N][N], b[N][N], n1[N], r1[N], l1[N], a_1[N], w[N][2 + 1];
#pragma xmp align [i][j] with t[i][j] :: a, b
#pragma xmp align [i] with l[i] :: n1, r1, l1, a_1
#pragma xmp align w[*][*] with l[*]
int *later;
#pragma xmp align later[i] with l[i]

static void make(void)
{
  later = (int *)xmp_malloc(xmp_desc_of(later), N);
}

int main(void)
{
  int i, j, k, sum = 0, count = 0, seen = 0, down = -1, c[N], d[N], e[N];
#pragma xmp loop (i, j) on t[i][j] reduction(+ : sum)
  for (i = 0; i < N; i++) {
    for (j = 0; j < N; j++) a[i][j] = 1;
    for (j = 0; j < N; j++) {
      b[i][j] = 2;
      sum += a[i][j] + b[i][j];
    }
  }
  CHECK(sum == 3 * N * N);

#pragma xmp loop (j) on t[0][j]
  for (i = 0; i < 2; i++) {
    k = 1;
    for (j = 0; j < N; j++) count += k;
  }
  CHECK(count == (xmpc_node_num() < 2 ? N : 0));

#pragma xmp loop on l[i]
  for (i = 0; i < N; i++) {
    n1[i] = i;
    r1[i] = 2 * i;
    a_1[i] = 0;
    l1[i] = n1[i] + r1[i];
  }
#pragma xmp array on l[N - 1:N:-1]
  a_1[N - 1:N:-1] = l1[N - 1:N:-1] + 1;
#pragma xmp gmove
  c[:] = a_1[:];
  for (i = 0; i < N; i++) CHECK(c[i] == 3 * i + 1);

#pragma xmp loop on l[i] reduction(+ : seen)
  for (i = N - 1; i >= 0; i += DOWN) seen++;
  CHECK(seen == N);
  d[0:N] = c[:N:DOWN];
  e[N - 1::down] = c[0:N];
  for (i = 0; i < N; i++) CHECK(d[i] == c[N - 1 - i] && e[i] == d[i]);

  for (i = 0; i < N; i++)
    for (j = 0; j < 3; j++) w[i][j] = 1;
#pragma xmp reduction(+ : w)
  for (i = 0; i < N; i++)
    for (j = 0; j < 3; j++) CHECK(w[i][j] == 4);

  for (k = 0; k < 2; k++) {
    if (k == 0) make();
    later[xmpc_node_num() * 2] = k;
  }
  CHECK(later[xmpc_node_num() * 2] == 1);
  return wrong != 0;
}
