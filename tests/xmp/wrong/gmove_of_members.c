/* says: 14: gmove moves members of one element only, `a[i].member` */
#include <xmp.h>
#define N 8
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
struct { int id; double x; } a[N];
#pragma xmp align a[i] with t[i]

int main(void)
{
  int v[N];
#pragma xmp gmove
  v[:] = a[:].id;
  return v[0];
}
