/* says: 12: `smu` is not declared; did you mean `sum`? */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
int main(void)
{
  double sum = 0;
#pragma xmp reduction(+:smu)
  return sum > 0;
}
