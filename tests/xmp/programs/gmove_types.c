/* nodes: 2 */
/* gmove of elements that are no numbers, and of arrays whose types have names. */
#include <xmp.h>
#pragma xmp nodes p[2]
#pragma xmp template t[8]
#pragma xmp distribute t[block] onto p
typedef double vec[3];
vec a[8], b[8];
struct { int x, y; } u[8], v[8];
double *pp[8], *qq[8];
#pragma xmp align a[i][*] with t[i]
#pragma xmp align b[i][*] with t[i]
#pragma xmp align u[i] with t[i]
#pragma xmp align v[i] with t[i]
#pragma xmp align pp[i] with t[i]
#pragma xmp align qq[i] with t[i]
int main(void) {
  const double *cd;
  struct pr { int a, b; } l[8], e;
  double back[8][3];
#pragma xmp gmove
  a[:][:] = b[:][:];
#pragma xmp gmove
  back[:][:] = b[:][:];
#pragma xmp gmove
  pp[:] = qq[:];
  return 0;
}
