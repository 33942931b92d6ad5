/* nodes: 4 */
/* Every form of bounds. */
#include <xmp.h>
#include "check.h"
#define N 30
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N];
#pragma xmp align a[i] with t[i]
static int visited(int first, int last, int step)
{
  int n = 0, i;
  for (i = first; step > 0 ? i <= last : i >= last; i += step) n++;
  return n;
}
#define ZERO() { int z; _Pragma("xmp loop on t[z]") for (z = 0; z < N; z++) a[z] = 0; }
#define EXPECT(first, last, step) { \
  int k, n = 0, z; \
  for (k = first; (step) > 0 ? k <= (last) : k >= (last); k += (step)) { last_seen = k; } \
  _Pragma("xmp loop on t[z] reduction(+:n)") for (z = 0; z < N; z++) n += a[z]; \
  CHECK(n == visited(first, last, step)); }
int main(void)
{
  int i, s = 3, lo = 2, last_seen = 0;
  unsigned int u;
  long l;
#pragma xmp loop on t[i]
  for (i = 0; i <= N - 1; i++) a[i] = 1;
  EXPECT(0, N - 1, 1) ZERO()
#pragma xmp loop on t[i]
  for (i = N - 1; i >= 0; i--) a[i] = 1;
  EXPECT(N - 1, 0, -1) ZERO()
#pragma xmp loop on t[i]
  for (i = lo; i < N; i += s) a[i] = 1;
  EXPECT(2, N - 1, 3) ZERO()
#pragma xmp loop on t[i]
  for (i = N - 2; i > lo; i -= s) a[i] = 1;
  EXPECT(N - 2, 3, -3) ZERO()
#pragma xmp loop on t[i]
  for (i = 0; N > i; ++i) a[i] = 1;
  EXPECT(0, N - 1, 1) ZERO()
#pragma xmp loop on t[i]
  for (i = 4; i != N; i = i + 1) a[i] = 1;
  EXPECT(4, N - 1, 1) ZERO()
#pragma xmp loop on t[i]
  for (i = 4; i <= 2 * lo + 7; i = 2 + i) a[i] = 1;
  EXPECT(4, 11, 2) ZERO()
#pragma xmp loop on t[u]
  for (u = 0; u < N; u++) a[u] = 1;
  EXPECT(0, N - 1, 1) ZERO()
#pragma xmp loop on t[l]
  for (l = N / 2; l < N; l++) a[l] = 1;
  EXPECT(N / 2, N - 1, 1) ZERO()
#pragma xmp loop on t[i]
  for (i = 10; i < 10; i++) a[i] = 1;
  EXPECT(10, 9, 1)
  return wrong != 0;
}
