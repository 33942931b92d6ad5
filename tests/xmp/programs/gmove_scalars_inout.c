/* nodes: 3 */
/* Single elements and variables in gmove in and out, converted as C does it. */
#include <xmp.h>
#include "check.h"
#define N 9
#pragma xmp nodes p[3]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double a[N];
int b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with t[i]
int main(void)
{
  int i, x = 0, me = xmpc_node_num();
  float f = 0;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i + 0.5, b[i] = 0;
#pragma xmp barrier
#pragma xmp gmove in
  x = a[(me * 3 + 4) % N];
  CHECK(x == (me * 3 + 4) % N);
#pragma xmp gmove in
  f = a[me];
  CHECK(f == me + 0.5f);
#pragma xmp gmove in
  b[me * 3] = a[8 - me];
  CHECK(b[me * 3] == 8 - me);
#pragma xmp barrier
  x = 77;
#pragma xmp gmove out
  a[4] = x;
#pragma xmp gmove
  f = a[4];
  CHECK(f == 77);
#pragma xmp gmove out
  b[7] = a[4];
#pragma xmp gmove
  x = b[7];
  CHECK(x == 77);
  return wrong != 0;
}
