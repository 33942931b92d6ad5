/* nodes: 3 */
/* A full shadow: every node has all of it, at the global index; cyclic, too. */
#include <xmp.h>
#include "check.h"
#define N 11
#pragma xmp nodes p[3]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[cyclic] onto p
int a[N], b[N], m[N][2];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with u[i]
#pragma xmp align m[i][*] with t[i]
#pragma xmp shadow a[*]
#pragma xmp shadow b[*]
#pragma xmp shadow m[*][0]
int main(void)
{
  int i;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { a[i] = i + 1; m[i][1] = 5 * i; }
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) b[i] = 2 * i + 1;
#pragma xmp reflect (a, b)
#pragma xmp reflect (m)
  for (i = 0; i < N; i++) CHECK(a[i] == i + 1 && b[i] == 2 * i + 1 && m[i][1] == 5 * i);
  return wrong != 0;
}
