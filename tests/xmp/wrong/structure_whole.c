/* says: 10: as a whole it cannot be used */
#include <xmp.h>
#include <string.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp align a[i] with t[i]
} x;
int main(void) { memset(&x, 0, sizeof x); return 0; }
