/* nodes: 4 */
/* Templates and arrays of a function that calls itself; memory that outlives the pointer that it was made for. */
#include <xmp.h>
#include "check.h"
#define N 4000
#pragma xmp nodes p[*]
#pragma xmp template whole[N]
#pragma xmp distribute whole[block] onto p

static int bounds(int n)
{
#pragma xmp nodes q[*]
#pragma xmp template t[n]
#pragma xmp distribute t[block] onto q
  int a[n], s = 0, inner = 0;
#pragma xmp align a[i] with t[i]
  if (n > 3) inner = bounds(n / 2);
#pragma xmp loop on t[i]
  for (int i = 0; i < n; i++) a[i] = 1;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < n; i++) s += a[i];
  return s + inner;
}

static int widths(int width)
{
#pragma xmp template t[40]
#pragma xmp distribute t[cyclic(width)] onto p
  int a[40], s = 0, inner = 0;
#pragma xmp align a[i] with t[i]
  if (width > 1) inner = widths(width - 1);
#pragma xmp loop on t[i]
  for (int i = 0; i < 40; i++) a[i] = i;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < 40; i++) s += a[i];
  return s + inner;
}

static double *make(double first)
{
  double *x;
  int i;
#pragma xmp align x[i] with whole[i]
  x = (double *)xmp_malloc(xmp_desc_of(x), N);
#pragma xmp loop on whole[i]
  for (i = 0; i < N; i++) x[i] = first + i;
  return x;
}

static double sum(double *x)
{
  double s = 0;
  int i;
#pragma xmp align x[i] with whole[i]
#pragma xmp loop on whole[i] reduction(+:s)
  for (i = 0; i < N; i++) s += x[i];
  return s;
}

int main(void)
{
  double *a = make(0), *b = make(1);
  int round;
  for (round = 0; round < 3; round++) CHECK(bounds(20) == 20 + 10 + 5 + 2);
  CHECK(widths(3) == 3 * 780);
  CHECK(a != b && sum(a) == N * (N - 1.) / 2 && sum(b) == N * (N + 1.) / 2);
  return wrong != 0;
}
