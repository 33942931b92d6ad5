/* says: 14: `break` leaves a loop */
#include <xmp.h>
#define N 8
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N];
#pragma xmp align a[i] with t[i]

int main(void)
{
  int i, m = 5, at = -1;
#pragma xmp loop on t[i] reduction(firstmax:m/at/)
  for (i = 0; i < N; i++) if (a[i] > m) { m = a[i]; at = i; break; }
  return at;
}
