/* says: 11: one set of nodes, or one template, can stand behind `on` */
#include <xmp.h>
#define N 10
#pragma xmp nodes procs[4]
#pragma xmp template tmpl[N]
#pragma xmp distribute tmpl[block] onto procs
double velocity[N], other[N];
#pragma xmp align velocity[i] with tmpl[i]
int main(void)
{
#pragma xmp barrier on procs, tmpl
  return 0;
}
