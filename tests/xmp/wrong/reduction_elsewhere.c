/* says: 14: `a` is spread over another template than that of the loop */
#include <xmp.h>
#define N 8
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[block] onto p
int a[N];
#pragma xmp align a[i] with u[i]
int main(void)
{
  int i;
#pragma xmp loop on t[i] reduction(+:a)
  for (i = 0; i < N; i++) a[i]++;
  return 0;
}
