/* says: 12: `a` is distributed: an assignment with a section of it needs a directive */
#include <xmp.h>
#define N 12
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], x[N]:[*];
#pragma xmp align a[i] with t[i]

int main(void)
{
  x[0:N]:[1] = a[0:N];
  return 0;
}
