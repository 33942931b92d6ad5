/* nodes: 4 */
/* A shadow that stands before the alignment of its array, at file scope and in a function. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p(4)
#pragma xmp template t(0:N-1)
double u[N][3], v[N][3];
#pragma xmp distribute t(block) onto p
#pragma xmp shadow u[1:1][0:0]
#pragma xmp align [j][*] with t(j) :: u, v
#pragma xmp shadow [1][0] :: v

int main(void)
{
  double w[N];
  int sum = 0;
#pragma xmp shadow w[2]
#pragma xmp align w[j] with t(j)
#pragma xmp loop on t(j)
  for (int j = 0; j < N; j++) {
    w[j] = j;
    for (int k = 0; k < 3; k++) u[j][k] = v[j][k] = j;
  }
#pragma xmp reflect (u, v, w)
#pragma xmp loop on t(j) reduction(+:sum)
  for (int j = 2; j < N - 2; j++)
    sum += u[j - 1][2] + u[j + 1][0] != 2 * j || v[j - 1][1] != j - 1 || w[j - 2] + w[j + 2] != 2 * j;
  CHECK(sum == 0);
  return wrong;
}
