/* says: 13: only `i` has a step here */
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
  for (i = 0, j = 0; i < N; i++, j += 2) a[i] = j;
  return 0;
}
