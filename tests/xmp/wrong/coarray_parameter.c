/* says: 9: a parameter cannot be a coarray */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
int first(int x[4]:[*]) { return x[0]; }
int main(void)
{
  return first(b);
}
