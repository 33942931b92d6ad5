/* says: 12: a gmove has no casts */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
int main(void)
{
#pragma xmp gmove
  b[0:4] = (int)a[0:4];
  return 0;
}
