/* nodes: 4 */
/* A loop over what is dealt out one by one, which reads what came before: also where that would be before the first, and by a variable without sign. */
#include <xmp.h>
#include "check.h"
#define N 24
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[cyclic] onto p
int v[N], w[N];
#pragma xmp align v[i] with t[i]
#pragma xmp align w[i] with t[i]
int main(void)
{
  int i;
  unsigned u;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) v[i] = w[i] = 1;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++)
    if (i >= 4) v[i] += v[i - 4];
#pragma xmp loop on t[u]
  for (u = 0; u < N; u++)
    if (u >= 010) w[u] += w[u - 010];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(v[i] == i / 4 + 1 && w[i] == i / 8 + 1);
  return wrong != 0;
}
