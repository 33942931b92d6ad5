/* nodes: 8 */
/* A lattice in four dimensions, three of them spread, with complex matrices in each site: periodic reflects, plaquettes, a gauge transformation leaves them. */
#include <complex.h>
#include <math.h>
#include <xmp.h>
#include "check.h"
#define T 4
#define Z 6
#define Y 4
#define X 3
typedef struct { double _Complex m[2]; } link;
#pragma xmp nodes p[2][2][2]
#pragma xmp template l[T][Z][Y][X]
#pragma xmp distribute l[block][block][block][*] onto p
link u[T][Z][Y][X];
int sites[T][Z][Y][X];
#pragma xmp align u[t][z][y][x] with l[t][z][y][x]
#pragma xmp align sites[t][z][y][x] with l[t][z][y][x]
#pragma xmp shadow u[1][1][1][1]
#pragma xmp shadow sites[0:1][1:0][1][1]

static int number(int t, int z, int y, int x)
{
  return (((t + T) % T * Z + (z + Z) % Z) * Y + (y + Y) % Y) * X + (x + X) % X;
}

static link product(link a, link b)
{
  link c;
  c.m[0] = a.m[0] * b.m[0] - a.m[1] * conj(b.m[1]);
  c.m[1] = a.m[0] * b.m[1] + a.m[1] * conj(b.m[0]);
  return c;
}

static link turned(link a) { link c; c.m[0] = conj(a.m[0]); c.m[1] = -a.m[1]; return c; }

static link made(int n)
{
  link a;
  double s = sin(n) * 1.5, r;
  a.m[0] = cos(s) + I * sin(n * 2.);
  a.m[1] = sin(s) - I * cos(n * 3.);
  r = sqrt(creal(a.m[0] * conj(a.m[0]) + a.m[1] * conj(a.m[1])));
  a.m[0] /= r; a.m[1] /= r;
  return a;
}

int main(void)
{
  double sum = 0, want = 0;
  int t, z, y, x, bad = 0;
#pragma xmp loop (t, z, y, x) on l[t][z][y][x]
  for (t = 0; t < T; t++)
    for (z = 0; z < Z; z++)
      for (y = 0; y < Y; y++)
        for (x = 0; x < X; x++) { u[t][z][y][x] = made(number(t, z, y, x)); sites[t][z][y][x] = number(t, z, y, x); }
#pragma xmp reflect (u) width(/periodic/1, /periodic/1, /periodic/1, /periodic/1)
#pragma xmp reflect (sites) width(/periodic/0:1, /periodic/1:0, /periodic/1, /periodic/1)
#pragma xmp loop on l[t][z][y][*] reduction(+:sum) reduction(+:bad)
  for (t = 0; t < T; t++)
    for (z = 0; z < Z; z++)
      for (y = 0; y < Y; y++)
        for (x = 0; x < X; x++) {
          link a = product(u[t + 1][z - 1][y][x], turned(u[t][z][y + 1][x - 1]));
          sum += creal(product(a, u[t - 1][z + 1][y - 1][x + 1]).m[0]);
          bad += sites[t + 1][z - 1][y + 1][x + 1] != number(t + 1, z - 1, y + 1, x + 1);
          bad += sites[t][z - 1][y - 1][x - 1] != number(t, z - 1, y - 1, x - 1);
          bad += sites[t + 1][z][y][x - 1] != number(t + 1, z, y, x - 1);
        }
  for (t = 0; t < T; t++) for (z = 0; z < Z; z++) for (y = 0; y < Y; y++) for (x = 0; x < X; x++) {
    link a = product(made(number(t + 1, z - 1, y, x)), turned(made(number(t, z, y + 1, x - 1))));
    want += creal(product(a, made(number(t - 1, z + 1, y - 1, x + 1))).m[0]);
  }
  CHECK(fabs(sum - want) < 1e-10);
  CHECK(bad == 0);
  return wrong != 0;
}
