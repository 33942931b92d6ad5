/* nodes: 4 */
/* Asynchronous reflect, gmove, bcast and reduction; peel_and_wait; expand and margin; reflect_init and reflect_do. */
#include <xmp.h>
#include "check.h"
#define N 20
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int a[N], b[N], c[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[i] with t[i]
#pragma xmp align c[i] with t[i]
#pragma xmp shadow a[1]
int main(void)
{
  int i, n = 0, s, whole[N], before = 0, me = xmpc_node_num();
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i;
#pragma xmp reflect (a) width(/periodic/1) async(7)
#pragma xmp loop on t[i] peel_and_wait(7, 1)
  for (i = 0; i < N; i++) { b[i] = a[i - 1] + a[i + 1]; n++; }
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(b[i] == (i == 0 ? N - 1 : i - 1) + (i == N - 1 ? 0 : i + 1));
  CHECK(n == 5);
  s = 1;
#pragma xmp reduction(+:s) async(8)
#pragma xmp gmove async(9)
  whole[:] = a[:];
#pragma xmp wait_async (8, 9)
  CHECK(s == 4);
  for (i = 0; i < N; i++) CHECK(whole[i] == i);
  n = me == 0 ? 12 : 0;
#pragma xmp bcast (n) async(3)
#pragma xmp wait_async (3) on p
  CHECK(n == 12);
  n = 0;
#pragma xmp loop on t[i] expand(1)
  for (i = 0; i < N; i++) n++;
  CHECK(n == (me == 0 || me == 3 ? 6 : 7));
  n = 0;
#pragma xmp loop on t[i] expand(-1)
  for (i = 0; i < N; i++) n++;
  CHECK(n == 3);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = 100 + i;
#pragma xmp reflect_init (a) width(1)
#pragma xmp reflect_do (a)
#pragma xmp loop on t[i]
  for (i = 1; i < N - 1; i++) CHECK(a[i - 1] == 99 + i && a[i + 1] == 101 + i);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { a[i] = 1; }
#pragma xmp loop on t[i] expand(/unbound/1)
  for (i = 0; i < N; i++) a[i] = 1;
#pragma xmp reduce_shadow (a)
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(a[i] == (i % 5 == 0 || i % 5 == 4 ? (i == 0 || i == N - 1 ? 1 : 2) : 1));
#pragma xmp barrier
  return wrong + before != 0;
}
