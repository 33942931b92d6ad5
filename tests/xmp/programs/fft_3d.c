/* nodes: 4 */
/* A Fourier transform in three dimensions: two are local, then a gmove to an array that is spread over another one, and back. */
#include <complex.h>
#include <math.h>
#include <xmp.h>
#include "check.h"
#define NX 8
#define NY 16
#define NZ 4
typedef double _Complex number;
#pragma xmp nodes p[*]
#pragma xmp template tx[NX][NY][NZ]
#pragma xmp distribute tx[block][*][*] onto p
#pragma xmp template ty[NX][NY][NZ]
#pragma xmp distribute ty[*][block][*] onto p
number u[NX][NY][NZ], w[NX][NY][NZ], turned[NY][NX][NZ];
#pragma xmp align u[i][j][k] with tx[i][j][k]
#pragma xmp align w[i][j][k] with ty[i][j][k]
#pragma xmp align turned[j][i][k] with ty[i][j][k]
static double pi;

static void transform(int n, number *x, int step, int sign)
{
  number y[n];
  if (n == 1) return;
  transform(n / 2, x, 2 * step, sign);
  transform(n / 2, x + step, 2 * step, sign);
  for (int k = 0; k < n / 2; k++) {
    number odd = cexp(sign * 2 * I * pi * k / n) * x[(2 * k + 1) * step];
    y[k] = x[2 * k * step] + odd;
    y[k + n / 2] = x[2 * k * step] - odd;
  }
  for (int k = 0; k < n; k++) x[k * step] = y[k];
}

static number first(int i, int j, int k) { return sin(i + 3. * j) + I * cos(2. * k * j - i); }

static void both_directions(int sign)
{
  int i, j, k;
  number line[NX];
  if (sign > 0) {
#pragma xmp loop on ty[*][j][*]
    for (j = 0; j < NY; j++)
      for (k = 0; k < NZ; k++) {
        for (i = 0; i < NX; i++) line[i] = w[i][j][k];
        transform(NX, line, 1, sign);
        for (i = 0; i < NX; i++) w[i][j][k] = line[i] / NX;
      }
#pragma xmp gmove
    u[:][:][:] = w[:][:][:];
  }
#pragma xmp loop (i) on tx[i][*][*]
  for (i = 0; i < NX; i++) {
    for (j = 0; j < NY; j++) transform(NZ, &u[i][j][0], 1, sign);
    for (k = 0; k < NZ; k++) transform(NY, &u[i][0][k], NZ, sign);
    if (sign > 0) for (j = 0; j < NY; j++) for (k = 0; k < NZ; k++) u[i][j][k] /= NY * NZ;
  }
  if (sign > 0) return;
#pragma xmp gmove
  w[:][:][:] = u[:][:][:];
#pragma xmp loop on ty[*][j][*]
  for (j = 0; j < NY; j++)
    for (k = 0; k < NZ; k++) {
      for (i = 0; i < NX; i++) line[i] = w[i][j][k];
      transform(NX, line, 1, sign);
      for (i = 0; i < NX; i++) w[i][j][k] = line[i];
    }
}

int main(void)
{
  double before = 0, after = 0, off = 0;
  number some, want = 0;
  int i, j, k;
  pi = acos(-1);
#pragma xmp loop on tx[i][j][k] reduction(+:before)
  for (i = 0; i < NX; i++)
    for (j = 0; j < NY; j++)
      for (k = 0; k < NZ; k++) {
        u[i][j][k] = first(i, j, k);
        before += creal(u[i][j][k] * conj(u[i][j][k]));
      }
  both_directions(-1);
#pragma xmp loop (i, j, k) on ty[i][j][k] reduction(+:after)
  for (i = 0; i < NX; i++)
    for (j = 0; j < NY; j++)
      for (k = 0; k < NZ; k++) after += creal(w[i][j][k] * conj(w[i][j][k]));
  CHECK(fabs(after / (NX * NY * NZ) - before) < 1e-9 * before);
#pragma xmp gmove
  some = w[3][5][2];
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) for (k = 0; k < NZ; k++)
    want += first(i, j, k) * cexp(-2 * I * pi * (3. * i / NX + 5. * j / NY + 2. * k / NZ));
  CHECK(cabs(some - want) < 1e-9);
#pragma xmp loop on ty[*][j][*]
  for (j = 0; j < NY; j++) for (i = 0; i < NX; i++) for (k = 0; k < NZ; k++) turned[j][i][k] = w[i][j][k];
#pragma xmp gmove
  some = turned[5][3][2];
  CHECK(cabs(some - want) < 1e-9);
  both_directions(1);
#pragma xmp loop on tx[i][*][*] reduction(max:off)
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) for (k = 0; k < NZ; k++) off = fmax(off, cabs(u[i][j][k] - first(i, j, k)));
  CHECK(off < 1e-12);
  return wrong != 0;
}
