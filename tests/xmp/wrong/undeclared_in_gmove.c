/* says: 12: `vleocity` is not declared; did you mean `velocity`? */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
int main(void)
{
#pragma xmp gmove
  velocity[0:3] = vleocity[2:3];
  return 0;
}
