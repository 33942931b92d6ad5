/* says: 6: cannot have an initialiser */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[8]
#pragma xmp distribute t[block] onto p
int a[8] = {1, 2, 3};
#pragma xmp align a[i] with t[i]
int main(void)
{
  return 0;
}
