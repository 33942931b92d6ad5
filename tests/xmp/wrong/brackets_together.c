/* says: 9: in brackets each dimension has its own pair */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
#pragma xmp nodes g[2,2]
int main(void) { return 0; }
