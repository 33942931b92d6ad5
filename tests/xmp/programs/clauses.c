/* nodes: 4 */
/* Clauses in any order, with and without commas, and directives that end as statements do. */
#include <xmp.h>
#include "check.h"
#define N 10
#pragma xmp nodes p(4);
#pragma xmp nodes all(4) = **
#pragma xmp template t(0:N-1) ;
#pragma xmp distribute t(block) onto p;
int a[N], b[N];
#pragma xmp align a[i] with t(i);
#pragma xmp align b[i] with t(i)
#pragma xmp shadow a[1];

int main(void)
{
  int s = 0, m = 0, n = 0, v = xmp_node_num();
#pragma xmp loop (i) reduction(+:s), reduction(max:m) on t(i)
  for (int i = 0; i < N; i++) { a[i] = i; s += i; m = i > m ? i : m; }
#pragma xmp loop (i) on t(i), reduction(+:n);
  for (int i = 0; i < N; i++) n++;
  CHECK(s == 45 && m == 9 && n == N);
#pragma xmp reflect (a), width(1), async(1)
#pragma xmp wait_async (1);
#pragma xmp reflect (a) async(2) orthogonal, width(1)
#pragma xmp wait_async (2), on p
#pragma xmp loop expand(0) on t(i)
  for (int i = 1; i < N - 1; i++) b[i] = a[i - 1] + a[i + 1];
  n = 0;
#pragma xmp loop reduction(+:n) on t(i)
  for (int i = 1; i < N - 1; i++) n += b[i] != 2 * i;
  CHECK(n == 0);
  s = 1;
#pragma xmp reduction(+:s) async(3), on p
#pragma xmp wait_async (3)
  CHECK(s == 4);
#pragma xmp bcast (v) on p, from p(3)
  CHECK(v == 3);
#pragma xmp gmove async(4) in
  s = a[2];
#pragma xmp wait_async (4)
  CHECK(s == 2);
#pragma xmp tasks nowait
  {
#pragma xmp task on p(1:2), nocomm
    { v = 2; }
#pragma xmp task on all(3:4);
    { v = 4; }
  }
  CHECK(v == (xmp_node_num() < 3 ? 2 : 4));
#pragma xmp barrier;
  return wrong;
}
