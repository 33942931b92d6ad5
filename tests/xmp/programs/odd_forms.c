/* nodes: 4 */
/* Loops and directives as people write them: macros and comments in directives, all kinds of loop variables, negative bounds, structures, loops on nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <xmp.h>
#include "check.h"
#define STR(x) #x
#define LOOP(t, i) _Pragma(STR(xmp loop on t[i])) for (int i = 0; i < N; i++)
#define N 32
#define DIST block
#define OPCLAUSE reduction(+:sum)
#pragma xmp nodes p[*] /* all of them */
#pragma xmp template t[N], r(-N:N)
#pragma xmp distribute t[DIST] onto p // like so
#pragma xmp distribute r(cyclic) onto p
int a[N], b[N];
#pragma xmp align a[i] \
        with t[i]
#pragma xmp align b[ i ] with t [ i ]
double v[2*N+1];
#pragma xmp align v[k] with r(k-N)
#ifdef _XCALABLEMP
static int is_xmp = 1;
#else
static int is_xmp = 0;
#endif
typedef struct { int n; double w[4]; } rec;
rec recs[N];
#pragma xmp align recs[i] with t[i]
enum { FIRST = 3, LAST = N - 5 };
static inline int twice(int x) { return x << 1; }
int main(void)
{
  long sum = 0;
  size_t k;
  unsigned u;
  short sh;
  CHECK(is_xmp);
  LOOP(t, i) { a[i] = i; b[i] = 0; }
#pragma xmp loop on t[i] OPCLAUSE
  for (int i = FIRST; i <= LAST; i++) sum += a[i];
  CHECK(sum == (long)(FIRST + LAST) * (LAST - FIRST + 1) / 2);
  sum = 0;
#pragma xmp loop on t[k] reduction(+:sum)
  for (k = 0; k < N; k++) sum += twice(a[k]);
  CHECK(sum == N * (N - 1));
  sum = 0;
#pragma xmp loop on t[u] reduction(+:sum)
  for (u = 1; u < N; u += 2) sum += a[u], b[u] = 1;
  CHECK(sum == (N / 2) * (N / 2));
#pragma xmp loop on t[sh]
  for (sh = N - 1; sh > 0; sh -= 2) b[sh]++;
  sum = 0;
#pragma xmp loop (q) on t[q] reduction(+ : sum)
  for (int q = 0; N > q; q++) { CHECK(b[q] == (q % 2 ? 2 : 0)); sum += b[q]; }
  CHECK(sum == N);
#pragma xmp loop on r(g)
  for (int g = -N; g <= N; g++) v[g + N] = g * .5;
  {
    double best = 0, l[2 * N + 1]; int where = 99;
#pragma xmp loop on r(g) reduction(firstmin:best/where/)
    for (int g = -N; g <= N; g++) if (v[g + N] < best) { best = v[g + N]; where = g; }
    CHECK(best == -.5 * N && where == -N);
#pragma xmp gmove
    l[:] = v[:];
    for (int g = -N; g <= N; g++) CHECK(l[g + N] == g * .5);
  }
#pragma xmp loop on t[i]
  for (int i = 0; i < N; i++) {
    recs[i].n = i;
    recs[i].w[0:4] = i;
    recs[i].w[1:2] += 1;
  }
#pragma xmp loop on t[i]
  for (int i = 0; i < N; i++) {
    rec *at = recs + i;
    CHECK(at->w[0] == i && at->w[1] == i + 1 && at->w[3] == i);
    if (i % 3 == 0) continue;
    memset(&recs[i], 0, sizeof recs[i]);
  }
  {
    rec all[N], one;
#pragma xmp gmove
    all[:] = recs[:];
    CHECK(all[3].n == 3 && all[4].n == 0 && all[30].w[2] == 31);
#pragma xmp gmove
    recs[1:3] = recs[9:3];
#pragma xmp gmove
    one = recs[1];
    CHECK(one.n == 9);
  }
  /* on nodes */
  sum = 0;
#pragma xmp loop on p[i] reduction(+:sum)
  for (int i = 0; i < 4; i++) { CHECK(i == xmpc_node_num()); sum += 1 << i; }
  CHECK(sum == 15);
  /* pointers to elements, compound, conditional */
#pragma xmp loop on t[i]
  for (int i = 0; i < N; i++) {
    int *e = &a[i];
    *e = i > 4 ? (a[i] & 1 ? -i : +i) : (i, 7);
    a[i] <<= 1;
    b[i] = sizeof a[i] + sizeof(int) == 8 ? !a[i] : ~a[i];
  }
  {
    int l[N];
#pragma xmp gmove
    l[:] = a[:];
    CHECK(l[0] == 14 && l[5] == -10 && l[6] == 12);
  }
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
