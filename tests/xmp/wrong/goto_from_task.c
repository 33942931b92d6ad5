/* says: 21: `goto` leaves a task */
#include <xmp.h>
#define N 10
#pragma xmp nodes p[4]
#pragma xmp nodes g(2,2)
#pragma xmp template t[N]
#pragma xmp template s(0:N-1,0:N-1)
#pragma xmp distribute t[block] onto p
#pragma xmp distribute s(block,block) onto g
double a[N], b[N], m[N][N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with t[i]
#pragma xmp align m[i][j] with s(j,i)
#pragma xmp shadow a[1]
int x:[*], y[5]:[*];
int main(void)
{
  int i, j, n = 3, q[5];
#pragma xmp task on p[0]
  {
    goto end;
  }
end:
  return i + j + n + q[0];
}
