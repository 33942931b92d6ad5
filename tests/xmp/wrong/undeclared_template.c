/* says: 9: template `tmlp` is not declared: did you mean `tmpl`? */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
#pragma xmp align other[i] with tmlp[i]
int main(void) { return 0; }
