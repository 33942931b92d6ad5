/* nodes: 2 */
/* Old declarations: coarray by directive, parameters of several dimensions, an array of a function that is static, unsigned loops. */
#include <xmp.h>
#include "check.h"
#define N 6
#pragma xmp nodes p(*)
#pragma xmp template t(N)
#pragma xmp distribute (cyclic) onto p :: t
int box[N], one;
#pragma xmp coarray box, one : [*]
double spec[2];
#pragma xmp coarray on p :: spec
static double m[N][4];
#pragma xmp align m[i][*] with t(i+1)
static void scale(double v[N][4], int n, double f)
{
#pragma xmp align v[i][*] with t(i+1)
  unsigned long i;
  int j;
#pragma xmp loop (i) on t(i+1)
  for (i = 0; i < n; i++) for (j = 0; j < 4; j++) v[i][j] *= f;
}
int main(void)
{
  int i, me = xmpc_node_num(), other = 1 - me;
  one = me;
  box[2] = 20 + me;
  spec[1] = me;
#pragma xmp sync_memory
#pragma xmp sync_all
  CHECK(one:[other] == other && box[2]:[other] == 20 + other && spec[1]:[other] == other);
#pragma xmp loop (i) on t(i+1)
  for (i = 0; i < N; i++) m[i][0:4] = 2.0;
  scale(m, N, 1.5);
#pragma xmp loop (i) on t(i+1)
  for (i = N; i > 0; i--) CHECK(i > 5 || m[i - 1][3] == 3 || 1);
#pragma xmp loop (i) on t(i+1)
  for (i = 0; i < N; i++) CHECK(m[i][3] == 3);
  return wrong != 0;
}
