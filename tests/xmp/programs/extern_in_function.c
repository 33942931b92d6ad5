/* nodes: 2 */
/* Old declarations: coarray by directive, parameters of several dimensions, an array of a function that is static, unsigned loops. */
#include <xmp.h>
#include "check.h"
#define N 6
#pragma xmp nodes p(*)
#pragma xmp template t(N)
#pragma xmp distribute (cyclic) onto p :: t
#pragma xmp template t2(0:2*N-1)
#pragma xmp distribute t2(block) onto p
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
double wide[2 * N];
#pragma xmp align wide[i] with t2(i)
#pragma xmp shadow wide[1]
static int boxed(void)
{
  extern int box[N]:[*];
  box[0] = 40 + xmpc_node_num();
#pragma xmp sync_all
  return box[0]:[1];
}
static double filled(int i)
{
  extern double wide[2 * N];
#pragma xmp loop on t2(i)
  for (i = 0; i < 2 * N; i++) wide[i] = i;
  {
    extern double wide[2 * N];
#pragma xmp align wide[i] with t2(i)
#pragma xmp shadow wide[1]
    double one;
#pragma xmp reflect (wide)
#pragma xmp gmove
    one = wide[7];
    return one;
  }
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
  CHECK(filled(0) == 7 && boxed() == 41);
#pragma xmp loop on t2(i)
  for (i = 1; i < 2 * N - 1; i++) CHECK(wide[i - 1] + wide[i + 1] == 2 * i);
  return wrong != 0;
}
