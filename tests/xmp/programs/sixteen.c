/* nodes: 16 */
/* Sixteen nodes in a square, more than some arrays have elements for. */
#include <xmp.h>
#include "check.h"
#define N 30
#pragma xmp nodes p(4,4)
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp distribute t(block,cyclic(2)) onto p
float a[N][N], b[N][N];
#pragma xmp align a[i][j] with t(j,i)
#pragma xmp align b[i][j] with t(i,j)
#pragma xmp nodes q(16) = p(1:4,1:4)
#pragma xmp template s(0:N*N-1)
#pragma xmp distribute s(block) onto q
int flat[N*N];
#pragma xmp align flat[k] with s(k)
#pragma xmp template g(1:5)
#pragma xmp distribute g(block) onto q
int few[5];
#pragma xmp align few[i] with g(i+1)
#pragma xmp shadow few[1]
int main(void)
{
  int i, j, k, n = 0;
  double s = 0;
#pragma xmp loop (i,j) on t(j,i)
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) a[i][j] = i * N + j;
#pragma xmp gmove
  b[:][:] = a[:][:];
#pragma xmp loop (i,j) on t(i,j) reduction(+:s)
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) { CHECK(b[i][j] == i * N + j); s += b[i][j]; }
  CHECK(s == N * N * (N * N - 1.) / 2);
  for (i = 0; i < N; i += 7) {
    float row[N];
#pragma xmp gmove
    row[:] = b[i][:];
    for (j = 0; j < N; j++) CHECK(row[j] == i * N + j);
  }
#pragma xmp loop on s(k) reduction(+:n)
  for (k = 0; k < N * N; k++) { flat[k] = k; n++; }
  CHECK(n == N * N);
#pragma xmp loop on g(i+1)
  for (i = 0; i < 5; i++) few[i] = i + 1;
#pragma xmp reflect (few)
#pragma xmp loop on g(i+1)
  for (i = 1; i < 4; i++) CHECK(few[i - 1] == i && few[i + 1] == i + 2);
  n = 0;
#pragma xmp loop on g(i+1) reduction(max:n)
  for (i = 0; i < 5; i++) if (few[i] > n) n = few[i];
  CHECK(n == 5);
#pragma xmp task on p(2:3,1)
  {
    int c = 1;
#pragma xmp reduction(+:c)
    CHECK(c == 2);
#pragma xmp task on p(3,1)
    { c = 9; }
  }
#pragma xmp tasks
  {
#pragma xmp task on p(:,1:2)
    { int c = 1;
#pragma xmp reduction(+:c)
      CHECK(c == 8);
#pragma xmp barrier
    }
#pragma xmp task on p(:,3:4)
    { int c = 2;
#pragma xmp reduction(*:c)
      CHECK(c == 256); }
  }
  return wrong != 0;
}
