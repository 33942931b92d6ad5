/* says: 9: can only be a variable */
#include <xmp.h>
#pragma xmp nodes p[4]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
struct s { int a[10];
#pragma xmp align a[i] with t[i]
} x;
int f(struct s *q) { return q->a[1]; }
int main(void) { return f(&x); }
