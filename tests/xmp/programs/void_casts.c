/* nodes: 2 */
/* A global array whose value is thrown away. */
#include <xmp.h>
#pragma xmp nodes p[*]
#pragma xmp template t[10]
#pragma xmp distribute t[block] onto p
double a[10], m[10][3], *dyn, c[5]:[*];
struct s { int x; } st[10];
#pragma xmp align [i] with t[i] :: a, st, dyn
#pragma xmp align m[i][*] with t[i]
static void f(double x[10], int n)
{
#pragma xmp align x[i] with t[i]
  (void)x; (void)n;
}
int main(void) {
  double b[10];
#pragma xmp align b[i] with t[i]
  (void)a; (void)m; (void)dyn; (void)c; (void)st; (void)b; ((void)(a)); (void)a[0]; (void)sizeof a; (void)(m[3]);
  a;
  f(a, 3);
  if (0) (void)a;
  for ((void)a; 0; (void)m) ;
  return 0, (void)a, 0;
}
