/* says: 7: a directive cannot stand here */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp barrier
} x;
int main(void) { return x.a[0]; }
