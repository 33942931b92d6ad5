/* nodes: 2 */
/* The subscripts of the Omni compiler: inside a loop those that do not mention its variable are local. */
#include <xmp.h>
#include "check.h"
#pragma kumiki omni_local_subscripts
#define N 8
#pragma xmp nodes p[2]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double x[N], y[N];
#pragma xmp align x[i] with t[i]
#pragma xmp align y[i] with t[i]
#pragma xmp shadow x[1]
int column[N];
int main(void)
{
  int i, k;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { x[i] = 10 * i; column[i] = i % 4 + 1; }
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    y[i] = 0;
    for (k = i; k < i + 1; k++) y[i] += x[column[k]];
  }
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(y[i] == 10 * i);
  return wrong != 0;
}
