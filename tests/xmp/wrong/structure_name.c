/* says: 10: nothing else may have its name */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp align a[i] with t[i]
} x;
struct plain { int a[4]; };
static void set(struct plain x) { x.a[0] = 1; }
int main(void) { struct plain y = {{0}}; set(y); return 0; }
