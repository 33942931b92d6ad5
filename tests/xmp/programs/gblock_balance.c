/* nodes: 5 */
/* Rows of a triangular matrix are dealt out by their cost: a gblock map that the program computes, also with nodes that get nothing. */
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
#define N 40
#pragma xmp nodes p(*)
#pragma xmp template t(0:N-1)
#pragma xmp distribute t(gblock(*)) onto p
#pragma xmp template even(0:N-1)
#pragma xmp distribute even(block) onto p
double (*a)[N], *x, y[N];
#pragma xmp align a[i][*] with t(i)
#pragma xmp align x[i] with t(i)
#pragma xmp align y[i] with even(i)

static void share(int nodes, int *map)
{
  long total = N * (N + 1L) / 2, done = 0;
  int at = 0;
  for (int k = 0; k < nodes; k++) {
    map[k] = 0;
    if (k == 1) continue;
    while (at < N && (k == nodes - 1 || done < total * (k + 1) / nodes)) { map[k]++; done += ++at; }
  }
}

int main(void)
{
  int nodes = xmp_num_nodes(), i, j, first, count, me = xmpc_node_num();
  int *map = malloc(nodes * sizeof *map), known[16];
  double all[N], s = 0;
  share(nodes, map);
#pragma xmp template_fix(gblock(map)) t
  a = (double (*)[N])xmp_malloc(xmp_desc_of(a), N, N);
  x = (double *)xmp_malloc(xmp_desc_of(x), N);
  CHECK(xmp_dist_gblockmap(xmp_desc_of(t), 1, known) == 0);
  for (first = 0, i = 0; i < nodes; i++) { CHECK(known[i] == map[i]); if (i < me) first += map[i]; }
  count = 0;
#pragma xmp loop on t(i)
  for (i = 0; i < N; i++) {
    CHECK(i == first + count);
    count++;
    x[i] = 0;
    for (j = 0; j <= i; j++) { a[i][j] = i - j + 1; x[i] += a[i][j]; }
    for (j = i + 1; j < N; j++) a[i][j] = 0;
  }
  CHECK(count == map[me] && (nodes < 2 || me != 1 || count == 0));
#pragma xmp gmove
  y[:] = x[:];
#pragma xmp loop on even(i) reduction(+:s)
  for (i = 0; i < N; i++) { CHECK(y[i] == (i + 1) * (i + 2) / 2); s += y[i]; }
  CHECK(s == N * (N + 1) * (N + 2) / 6);
#pragma xmp gmove
  all[:] = a[:][3];
  for (i = 0; i < N; i++) CHECK(all[i] == (i < 3 ? 0 : i - 2));
#pragma xmp gmove
  x[10:10:2] = y[29:10:-2];
#pragma xmp gmove
  all[:] = x[:];
  for (i = 0; i < 10; i++) CHECK(all[10 + 2 * i] == (30 - 2 * i) * (31 - 2 * i) / 2);
  CHECK(all[11] == 78);
  free(map);
  return wrong != 0;
}
