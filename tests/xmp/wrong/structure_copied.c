/* says: 9: assign one member after the other */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp align a[i] with t[i]
} x, y;
int main(void) { x = y; return 0; }
