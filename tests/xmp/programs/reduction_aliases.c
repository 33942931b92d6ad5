/* nodes: 4 */
/* Variables of a reduction clause that the loop reaches by a pointer, or in a function that it calls. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double total, *to_total = &total;
static double *kept;

static void add(double v) { *kept += v; }

int main(void)
{
  int i;
  double s = 1, *q = &s, z = 1, rows[2] = { 0, 0 };
  double *lead[2] = { &total, rows };
#pragma xmp loop on t[i] reduction(+:s)
  for (i = 0; i < N; i++) *q += i;
  CHECK(s == 67);
#pragma xmp loop on t[i] reduction(+:*q)
  for (i = 0; i < N; i++) *q += i;
  CHECK(s == 133);
#pragma xmp reduction (+:*q, (z))
  CHECK(s == 133 * 4 && z == 4);
  z = 1;
  kept = &z;
#pragma xmp loop on t[i] reduction(+:z)
  for (i = 0; i < N; i++) add(i);
  CHECK(z == 67);
  total = 1;
#pragma xmp loop on t[i] reduction(+:total)
  for (i = 0; i < N; i++) *to_total += i;
  CHECK(total == 67);
#pragma xmp loop on t[i] reduction(+:total)
  for (i = 0; i < N; i++) lead[0][0] += i;
  CHECK(total == 133);
  total = 1;
#pragma xmp loop on t[i] reduction(+:total)
  for (i = 0; i < N; i++) total += i;
  CHECK(total == 67);
  return wrong != 0;
}
