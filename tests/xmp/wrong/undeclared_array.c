/* says: 9: array `othr` is not declared before this directive; did you mean `other`? */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
#pragma xmp align othr[i] with tmpl[i]
int main(void) { return 0; }
