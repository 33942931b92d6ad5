/* nodes: 4 */
/* The reduction clause: the value from before counts once; arrays; firstmax and its like with locations. */
#include <xmp.h>
#include "check.h"
#define N 24
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[cyclic(2)] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with u[i]
int main(void)
{
  int i, k, s = 100, m = -5, loc = -1, loc2 = -1, h[3] = {1, 2, 3};
  double prod = 2;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = (i * 7) % 11;
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) b[i] = (i * 7) % 11;
#pragma xmp loop on t[i] reduction(+:s)
  for (i = 0; i < N; i++) s += 1;
  CHECK(s == 100 + N);
#pragma xmp loop on t[i] reduction(+:h) reduction(*:prod)
  for (i = 0; i < N; i++) { h[i % 3] += i; if (i == 20 || i == 2) prod *= 3; }
  CHECK(h[0] == 1 + 84 && h[1] == 2 + 92 && h[2] == 3 + 100 && prod == 18);
  /* 10 is at 3 and 14. */
#pragma xmp loop on t[i] reduction(firstmax:m/loc/)
  for (i = 0; i < N; i++) if (a[i] > m) { m = a[i]; loc = i; }
  CHECK(m == 10 && loc == 3);
  m = -5;
#pragma xmp loop on u[i] reduction(lastmax:m/loc,loc2/)
  for (i = 0; i < N; i++) {
    if (b[i] < m) continue;
    m = b[i]; loc = i; loc2 = 2 * i;
  }
  CHECK(m == 10 && loc == 14 && loc2 == 28);
  m = 1000;
#pragma xmp loop on u[i] reduction(firstmin:m/loc/)
  for (i = 0; i < N; i++) if (b[i] < m) { m = b[i]; loc = i; }
  CHECK(m == 0 && loc == 0);
  m = 1000;
#pragma xmp loop on t[i] reduction(lastmin:m/loc/)
  for (i = 0; i < N; i++) if (a[i] <= m) { m = a[i]; loc = i; }
  CHECK(m == 0 && loc == 22);
  k = 0;
#pragma xmp loop on t[i] reduction(max:k)
  for (i = 0; i < N; i++) if (a[i] > k) k = a[i];
  CHECK(k == 10);
  return wrong != 0;
}
