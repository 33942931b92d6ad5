/* says: 12: `j` is not declared */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
int main(void)
{
  int i;
#pragma xmp loop on tmpl[j]
  for (i = 0; i < N; i++) velocity[i] = 1;
  return 0;
}
