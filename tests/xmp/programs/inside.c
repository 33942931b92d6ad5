/* nodes: 8 */
/* gmove in and out of an array into itself: everything is read before anything is written. */
#include <xmp.h>
#include "check.h"
#define N 16
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[cyclic] onto p
int a[N];
#pragma xmp align a[i] with t[i]
int main(void)
{
  int i, round;
  for (round = 0; round < 50; round++) {
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) a[i] = i;
#pragma xmp gmove out
    a[3:8] = a[5:8];
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) CHECK(a[i] == (i >= 3 && i < 11 ? i + 2 : i));
#pragma xmp barrier
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) a[i] = i;
#pragma xmp gmove in
    a[4:8] = a[1:8];
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) CHECK(a[i] == (i >= 4 && i < 12 ? i - 3 : i));
#pragma xmp barrier
  }
  return wrong != 0;
}
