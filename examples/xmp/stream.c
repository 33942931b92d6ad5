/* The triad of STREAM: each node does its part. */
#include <stdio.h>
#include <xmp.h>
#ifndef N
#define N 1000000
#endif
#ifndef ROUNDS
#define ROUNDS 10
#endif
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
static double a[N], b[N], c[N];
#pragma xmp align [i] with t[i] :: a, b, c

int main(void)
{
  double scalar = 3.0, begin, best = 1e9, wrong = 0;
  int i, round;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    a[i] = 0;
    b[i] = 2.0;
    c[i] = i % 100;
  }
  for (round = 0; round < ROUNDS; round++) {
    double took;
#pragma xmp barrier
    begin = xmp_wtime();
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++)
      a[i] = b[i] + scalar * c[i];
    took = xmp_wtime() - begin;
#pragma xmp reduction(max:took)
    if (took < best) best = took;
  }
#pragma xmp loop on t[i] reduction(+:wrong)
  for (i = 0; i < N; i++)
    if (a[i] != 2.0 + 3.0 * (i % 100)) wrong += 1;
#pragma xmp task on p[0]
  {
    printf("triad of %d elements: %.0f wrong\n", N, wrong);
    fprintf(stderr, "%.2f GB/s\n", 24e-9 * N / best);
  }
  return wrong != 0;
}
