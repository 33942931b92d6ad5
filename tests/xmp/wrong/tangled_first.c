/* says: 13: depend on each other */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
int main(void)
{
  int i, j;
#pragma xmp loop on t[i]
  for (i = 3, j = i + 1; i < N; i++) a[i] = j;
  return 0;
}
