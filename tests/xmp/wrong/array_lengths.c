/* says: 10: this range of the template has 5 elements, the section 6 */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
double a[10];
#pragma xmp align a[i] with t[i]
int main(void)
{
#pragma xmp array on t[0:5]
  a[0:6] = 1;
  return 0;
}
