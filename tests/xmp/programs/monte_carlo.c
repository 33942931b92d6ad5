/* nodes: 4 */
/* Random points: sums, counts and the best one with where it was, whatever the distribution; equals are told apart by the sequential order. */
#include <xmp.h>
#include "check.h"
#define N 1000
#pragma xmp nodes p[*]
#pragma xmp template tb[N]
#pragma xmp distribute tb[block] onto p
#pragma xmp template tc[N]
#pragma xmp distribute tc[cyclic] onto p
#pragma xmp template tw[N]
#pragma xmp distribute tw[cyclic(7)] onto p
#pragma xmp template grid[20][50]
#pragma xmp distribute grid[cyclic][*] onto p

static unsigned hash(unsigned x) { x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; return x ^ (x >> 16); }
static int value(int i) { return hash(i) % 97; }

int main(void)
{
  int i, j, inside = 0, want_inside = 0, first_of = -1, last_of = -1, most = -1, least = 1000;
  long sum = 5;
  unsigned bits = 0, want_bits = 0;
  for (i = 0; i < N; i++) {
    double x = hash(2 * i) / 4294967296., y = hash(2 * i + 1) / 4294967296.;
    want_inside += x * x + y * y < 1;
    want_bits ^= hash(i);
    if (value(i) > most) { most = value(i); first_of = i; }
    if (value(i) <= least) { least = value(i); last_of = i; }
  }
#pragma xmp loop on tc[i] reduction(+:inside) reduction(+:sum) reduction(^:bits)
  for (i = 0; i < N; i++) {
    double x = hash(2 * i) / 4294967296., y = hash(2 * i + 1) / 4294967296.;
    if (x * x + y * y < 1) inside++;
    sum += value(i);
    bits ^= hash(i);
  }
  CHECK(inside == want_inside && bits == want_bits);
  for (i = 0; i < N; i++) sum -= value(i);
  CHECK(sum == 5);
  { int m = -1, at = -1, twice = 0, l = 1000, where = -1;
#pragma xmp loop on tb[i] reduction(firstmax:m/at,twice/) reduction(lastmin:l/where/)
    for (i = 0; i < N; i++) {
      if (value(i) > m) { m = value(i); at = i; twice = 2 * i; }
      if (value(i) <= l) { l = value(i); where = i; }
    }
    CHECK(m == most && at == first_of && twice == 2 * first_of && l == least && where == last_of);
  }
  { int m = -1, at = -1, l = 1000, where = -1;
#pragma xmp loop on tw[i] reduction(firstmax:m/at/) reduction(lastmin:l/where/)
    for (i = 0; i < N; i++) {
      if (value(i) > m) { m = value(i); at = i; }
      if (value(i) <= l) { l = value(i); where = i; }
    }
    CHECK(m == most && at == first_of && l == least && where == last_of);
  }
  { int m = -1, row = -1, column = -1;
#pragma xmp loop (i, j) on grid[i][j] reduction(firstmax:m/row,column/)
    for (i = 0; i < 20; i++)
      for (j = 0; j < 50; j++)
        if (value(i * 50 + j) > m) { m = value(i * 50 + j); row = i; column = j; }
    CHECK(m == most && row * 50 + column == first_of);
  }
  { int m = 0, at = -1, seen = 0;
    /* The first that is large enough, on each node; the first of all. */
#pragma xmp loop on tb[i] reduction(firstmax:m/at/)
    for (i = 0; i < N; i++) {
      seen++;
      if (value(i) == most) { m = value(i); at = i; break; }
    }
    CHECK(m == most && at == first_of && seen <= (N + xmp_num_nodes() - 1) / xmp_num_nodes());
  }
  { int m = 0, at = -1;
#pragma xmp loop on tc[k] reduction(lastmax:m/at/)
    for (int k = N - 1; k >= 0; k--) {
      switch (value(k) == most) { case 1: m = most; at = k; break; default: break; }
      if (m == most) break;
    }
    CHECK(m == most && value(at) == most && at <= N);
  }
  return wrong != 0;
}
