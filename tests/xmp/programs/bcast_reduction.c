/* nodes: 4 */
/* bcast and reduction of scalars, arrays, structures, sections, on subsets; every operation. */
#include <xmp.h>
#include <limits.h>
#include "check.h"
#pragma xmp nodes p(4)
#pragma xmp nodes g(2,2)
#define N 6
struct s { int a; double b[2]; };
int main(void)
{
  int me = xmp_node_num(), i, n = 0;
  double v[N], w[2][3];
  struct s r;
  long big = 1L << (20 + me);
  unsigned char bits = 1 << me;
  float f = me;
  int mask = 0xf0 | me, all = me != 3, any = me == 3, prod = me, lo = 10 - me, hi = me;
  if (me == 1) n = 77;
#pragma xmp bcast (n)
  CHECK(n == 77);
  if (me == 3) n = 78;
#pragma xmp bcast (n) from p(3)
  CHECK(n == 78);
  for (i = 0; i < N; i++) v[i] = me * 10 + i;
  r.a = me;
  r.b[1] = me + 0.5;
#pragma xmp bcast (v, r) from p(2) on p
  for (i = 0; i < N; i++) CHECK(v[i] == 20 + i);
  CHECK(r.a == 2 && r.b[1] == 2.5);
  v[1] = v[2] = me;
#pragma xmp bcast (v[1:2]) from p(4)
  CHECK(v[0] == 20 && v[1] == 4 && v[2] == 4 && v[3] == 23);
  n = me;
  /* Each row of g for itself: its first node has 1 or 3. */
#pragma xmp bcast (n) from g(1,*) on g(:,*)
  CHECK(n == (me <= 2 ? 1 : 3));
#pragma xmp reduction(+:big,f)
  CHECK(big == 30L << 20 && f == 10);
#pragma xmp reduction(|:bits)
  CHECK(bits == 30);
#pragma xmp reduction(&:mask)
  CHECK(mask == 0xf0);
#pragma xmp reduction(&&:all)
#pragma xmp reduction(||:any)
#pragma xmp reduction(*:prod)
#pragma xmp reduction(MIN:lo)
#pragma xmp reduction(MAX:hi)
  CHECK(all == 0 && any == 1 && prod == 24 && lo == 6 && hi == 4);
  n = me;
#pragma xmp reduction(^:n)
  CHECK(n == (1 ^ 2 ^ 3 ^ 4));
  for (i = 0; i < 6; i++) w[i / 3][i % 3] = i + me;
#pragma xmp reduction(+:w)
  for (i = 0; i < 6; i++) CHECK(w[i / 3][i % 3] == 4 * i + 10);
  n = 1;
#pragma xmp reduction(+:n) on p(1:3)
  CHECK(n == (me <= 3 ? 3 : 1));
  n = 1;
#pragma xmp reduction(+:n) on g(*,:)
  CHECK(n == 2);
  return wrong != 0;
}
