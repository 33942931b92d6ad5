/* The embarrassingly parallel kernel of the NAS benchmarks: pairs of normal deviates. -DM=24 is class S, 25 W, 28 A.
 *
 *   kumiki xmpcc -O3 ep.c -o ep -lm && kumiki run -n 4 ./ep
 */
#include <math.h>
#include <stdio.h>
#include <xmp.h>
#ifndef M
#define M 24
#endif
#define MK 16
#define NN (1 << (M - MK))
#define NK (1 << MK)
#define NQ 10
#define A 1220703125.0
#define S 271828183.0
#pragma xmp nodes p(*)
#pragma xmp template t(0:NN-1)
#pragma xmp distribute t(block) onto p

static const double r23 = 1.0 / (1 << 23), t23 = 1 << 23, r46 = 1.0 / (1 << 23) / (1 << 23), t46 = (double)(1 << 23) * (1 << 23);

static double randlc(double *x, double a)
{
  double a1 = (int)(r23 * a), a2 = a - t23 * a1;
  double x1 = (int)(r23 * *x), x2 = *x - t23 * x1;
  double t1 = a1 * x2 + a2 * x1, z = t1 - t23 * (int)(r23 * t1);
  double t3 = t23 * z + a2 * x2;
  *x = t3 - t46 * (int)(r46 * t3);
  return r46 * *x;
}

int main(void)
{
  double an = A, sx = 0, sy = 0, q[NQ] = {0};
  int k, i;
  for (i = 0; i <= MK; i++) randlc(&an, an);
#pragma xmp loop (k) on t(k) reduction(+:sx,sy,q)
  for (k = 0; k < NN; k++) {
    double seed = S, power = an;
    int kk = k;
    while (kk > 0) {
      if (kk % 2) randlc(&seed, power);
      kk /= 2;
      randlc(&power, power);
    }
    for (i = 0; i < NK; i++) {
      double x1 = 2 * randlc(&seed, A) - 1, x2 = 2 * randlc(&seed, A) - 1, r = x1 * x1 + x2 * x2;
      if (r <= 1) {
        double f = sqrt(-2 * log(r) / r), t3 = x1 * f, t4 = x2 * f;
        int l = (int)fmax(fabs(t3), fabs(t4));
        q[l] += 1;
        sx += t3;
        sy += t4;
      }
    }
  }
#pragma xmp task on p(1)
  {
    double pairs = 0;
    for (i = 0; i < NQ; i++) pairs += q[i];
    printf("2^%d pairs: sx %.12e, sy %.12e, %.0f inside\n", M, sx, sy, pairs);
  }
#if M == 24
  if (fabs(sx / -3.247834652034740e3 - 1) > 1e-8 || fabs(sy / -6.958407078382297e3 - 1) > 1e-8) return 1;
#endif
  return 0;
}
