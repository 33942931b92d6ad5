/* nodes: 2 */
/* Array assignments on local arrays: strides, overlap, several dimensions, elemental functions, members. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p(*)
struct s { int v[6]; };
int main(void)
{
  int a[10], b[10], i, n = 4, *q = b;
  double m[4][6], k[6][4], r[6] = {0};
  struct s s;
  for (i = 0; i < 10; i++) a[i] = i, b[i] = 10 * i;
  a[0:5] = b[5:5] + 1;
  for (i = 0; i < 10; i++) CHECK(a[i] == (i < 5 ? 51 + 10 * i : i));
  a[:] = 7;
  for (i = 0; i < 10; i++) CHECK(a[i] == 7);
  a[0:5:2] = b[1:5:2];
  for (i = 0; i < 10; i++) CHECK(a[i] == (i % 2 ? 7 : 10 * i + 10));
  for (i = 0; i < 10; i++) a[i] = i;
  a[1:9] = a[0:9];
  CHECK(a[0] == 0 && a[1] == 0 && a[9] == 8);
  a[9:5:-1] = b[0:5];
  CHECK(a[9] == 0 && a[5] == 40);
  a[5:] += b[:5];
  CHECK(a[9] == 40 && a[5] == 40);
  q[0:n] = a[0:n] * 2;
  CHECK(b[0] == 0 && b[3] == 2 * a[3] && b[4] == 40);
  m[:][:] = 2.25;
  for (i = 0; i < 24; i++) m[i / 6][i % 6] = i;
  k[1:3][0:3] = sqrt(m[0:3][2:3]) + m[1:3][0:3];
  CHECK(k[1][0] == sqrt(2.0) + 6 && k[3][2] == sqrt(16.0) + 20);
  r[0:6] = m[2][0:6] - r[0:6] * 0;
  CHECK(r[5] == 17);
  r[:] = 1.5;
  s.v[:] = 3;
  s.v[2:2] = a[5:2];
  CHECK(s.v[1] == 3 && s.v[2] == 40 && s.v[4] == 3 && r[5] == 1.5);
  return wrong != 0;
}
