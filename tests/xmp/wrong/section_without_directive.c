/* says: 16: an assignment with a section of it needs a directive */
#include <xmp.h>
#define N 16
#pragma xmp nodes p[4]
#pragma xmp nodes g[2][2]
#pragma xmp template t[N]
#pragma xmp template s[N][N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute s[block][block] onto g
int a[N], b[N], *u, *v, m[N][N];
#pragma xmp align [i] with t[i] :: a, b, u, v
#pragma xmp align m[i][j] with s[i][j]
int main(void)
{
  int i, c[N];
  c[0:N] = a[0:N];
  return i + c[0];
}
