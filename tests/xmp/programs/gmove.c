/* nodes: 4 */
/* gmove: block to cyclic, distributed to replicated, an element to everybody, transposed, overlapping. */
#include <xmp.h>
#include "check.h"
#define N 16
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[cyclic] onto p
int a[N], b[N], all[N], m[N][N], q[N][N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with u[i]
#pragma xmp align m[i][*] with t[i]
#pragma xmp align q[*][i] with t[i]
int main(void)
{
  int i, j, x = -1, part[5];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    a[i] = 3 * i + 1;
    for (j = 0; j < N; j++) m[i][j] = 100 * i + j;
  }
#pragma xmp gmove
  b[:] = a[:];
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) CHECK(b[i] == 3 * i + 1);
#pragma xmp gmove
  all[:] = b[:];
  for (i = 0; i < N; i++) CHECK(all[i] == 3 * i + 1);
#pragma xmp gmove
  x = a[13];
  CHECK(x == 40);
#pragma xmp gmove
  part[0:5] = a[2:5:3];
  for (i = 0; i < 5; i++) CHECK(part[i] == 3 * (2 + 3 * i) + 1);
#pragma xmp gmove
  a[4:8] = a[0:8];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == 3 * (i >= 4 && i < 12 ? i - 4 : i) + 1);
#pragma xmp gmove
  q[:][:] = m[:][:];
#pragma xmp loop on t[j]
  for (j = 0; j < N; j++)
    for (i = 0; i < N; i++) CHECK(q[i][j] == 100 * i + j);
#pragma xmp gmove
  a[:] = 5;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == 5);
#pragma xmp gmove
  a[0:N] = m[3][0:N];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == 300 + i);
  return wrong != 0;
}
