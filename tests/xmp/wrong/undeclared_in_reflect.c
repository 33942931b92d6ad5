/* says: 12: `velocty` is not declared: reflect needs a distributed array; did you mean `velocity`? */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
#pragma xmp shadow velocity[1]
int main(void)
{
#pragma xmp reflect (velocity, velocty)
  return 0;
}
