/* nodes: 4 */
/* A dummy that stands on the side of the array alone: its dimension is not distributed. The compiler warns of it. */
#include <xmp.h>
#include "check.h"
#define N 10
#pragma xmp nodes p(4)
#pragma xmp template t(0:N-1)
#pragma xmp distribute t(block) onto p
int c[N][N], v[N][3];
#pragma xmp align c[i][j] with t(j)
#pragma xmp align v[i][k] with t(i)

int main(void)
{
  int sum = 0;
#pragma xmp loop on t(j)
  for (int j = 0; j < N; j++) {
    for (int i = 0; i < N; i++) c[i][j] = i * N + j;
    for (int k = 0; k < 3; k++) v[j][k] = k;
  }
#pragma xmp loop on t(j) reduction(+:sum)
  for (int j = 0; j < N; j++)
    for (int i = 0; i < N; i++) sum += c[i][j] + v[j][2];
  CHECK(sum == N * N * (N * N - 1) / 2 + 2 * N * N);
  return wrong;
}
