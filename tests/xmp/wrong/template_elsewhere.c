/* says: 9: each source file has its own */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with grid[i]
int main(void) { return 0; }
