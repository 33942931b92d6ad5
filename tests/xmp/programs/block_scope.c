/* nodes: 4 */
/* Nodes, templates and arrays of a function, made anew with each call; sizes of run time; declarations behind statements. */
#include <xmp.h>
#include "check.h"
static int work(int n, int lo)
{
  int i, s = 0;
  n += 0;
#pragma xmp nodes p(*)
#pragma xmp template t(lo:lo+n-1)
#pragma xmp distribute t(block) onto p
  double v[n], w[n];
#pragma xmp align v[i] with t(i+lo)
#pragma xmp align w[i] with t(i+lo)
#pragma xmp shadow w[2:1]
  static int calls[40];
#pragma xmp template k[40]
#pragma xmp distribute k[cyclic(3)] onto p
#pragma xmp align calls[i] with k[i]
#pragma xmp loop (i) on t(i+lo)
  for (i = 0; i < n; i++) { v[i] = i; w[i] = 2 * v[i]; }
#pragma xmp reflect (w)
#pragma xmp loop (i) on t(i+lo) reduction(+:s)
  for (i = 2; i < n - 1; i++) s += (int)(w[i - 2] + w[i + 1] - v[i]);
#pragma xmp loop on k[i]
  for (i = 0; i < 40; i++) calls[i]++;
#pragma xmp task on k[39]
  s += 1000 * calls[39];
#pragma xmp bcast (s) from p(2)
  return s;
}
int main(void)
{
  int round;
  for (round = 1; round <= 3; round++) {
    int n = 10 + 7 * round, expected = 0, i, got = work(n, round);
    for (i = 2; i < n - 1; i++) expected += 2 * (i - 2) + 2 * (i + 1) - i;
    CHECK(got == expected + 1000 * round);
  }
  if (xmp_node_num() == 1) {
    int unsplit[3];
    unsplit[0:3] = 4;
    CHECK(unsplit[2] == 4);
  }
  return wrong != 0;
}
