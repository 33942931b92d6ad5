/* says: 7: `b` is no member of this structure */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp align b[i] with t[i]
} x;
int main(void) { return 0; }
