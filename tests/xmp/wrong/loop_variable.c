/* says: 11: there is no `for` with the variable `j` behind this directive */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
int main(void)
{
#pragma xmp loop on t[j]
  for (int i = 0; i < N; i++) a[i] = i;
  return 0;
}
