/* nodes: 4 */
/* The array directive: element-wise work on sections of distributed arrays. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 16
#pragma xmp nodes p(2,2)
#pragma xmp nodes l(4)
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp template u(0:N-1)
#pragma xmp template c[N]
#pragma xmp distribute t(block,block) onto p
#pragma xmp distribute u(block) onto l
#pragma xmp distribute c[cyclic] onto l
double a[N][N], b[N][N], v[N], w[N];
#pragma xmp align a[i][j] with t(j,i)
#pragma xmp align b[i][j] with t(j,i)
#pragma xmp align v[i] with u(i)
#pragma xmp align w[i] with c[i]
#pragma xmp template d[N+5]
#pragma xmp distribute d[block] onto l
double x[N], y[5];
#pragma xmp align x[i] with d[i]
#pragma xmp align y[i] with d[i]
int main(void)
{
  int i, j;
#pragma xmp array on t(:,:)
  a[:][:] = 2.0;
#pragma xmp array on t(0:N-1,2:N-3)
  b[2:N-4][:] = a[2:N-4][:] * 3 + sqrt(a[2:N-4][:]);
#pragma xmp loop (i,j) on t(j,i)
  for (i = 0; i < N; i++) for (j = 0; j < N; j++)
    CHECK(a[i][j] == 2 && b[i][j] == (i >= 2 && i < N - 2 ? 6 + sqrt(2.0) : 0));
#pragma xmp array on u(1:N-1:2)
  v[1:N/2:2] = 5;
#pragma xmp loop on u(i)
  for (i = 0; i < N; i++) CHECK(v[i] == (i % 2 ? 5 : 0));
#pragma xmp array on c[3:10]
  w[3:10] = 1.5;
#pragma xmp array on c[3:10]
  w[3:10] += w[3:10];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(w[i] == (i >= 3 && i < 13 ? 3 : 0));
  /* A template may go on behind the arrays. */
#pragma xmp array on d
  x[:] = 1;
#pragma xmp array on d[:]
  { x[0:N-3] = x[0:N-3] + 1; }
#pragma xmp array on d[0:N]
  y[:] = 7;
#pragma xmp loop on d[i]
  for (i = 0; i < N; i++) CHECK(x[i] == (i < N - 3 ? 2 : 1));
#pragma xmp loop on d[i]
  for (i = 0; i < 5; i++) CHECK(y[i] == 7);
  return wrong != 0;
}
