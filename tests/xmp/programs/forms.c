/* nodes: 4 */
/* Ways to write directives that are seldom seen, and mixtures of the two notations. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p(4), g[2][2]
#pragma xmp nodes(4) :: r
#pragma xmp nodes odd(2) = p(2:4:2)
#pragma xmp nodes even[2] = p[0:2:2]
#pragma xmp template (0:N-1) :: t1, t2
#pragma xmp template s[N][N], w(1:N)
#pragma xmp distribute t1(block), t2(cyclic) onto p
#pragma xmp distribute s[block][cyclic] onto g
#pragma xmp distribute w(block) onto odd
int a[N], b[N], c[N], m[N][N], q[N][N][2], o[N];
#pragma xmp align a[i], b[i] with t1(i)
#pragma xmp align c[:] with t2(:)
#pragma xmp align m[:][:] with s[:][:]
#pragma xmp align q[:][:][*] with s[:][:]
#pragma xmp align o[i] with w(i+1)
#pragma xmp shadow [1:2] :: a, b
#pragma xmp template k[1:100]
#pragma xmp distribute k[block] onto p
int one_based[100];
#pragma xmp align one_based[i] with k[i+1]
struct point { double x; int n; } pts[N], loc[N];
#pragma xmp align pts[i] with t2(i)
int main(void)
{
  int i, j, n, me = xmpc_node_num(), l[N], x, *px = &x;
  xmp_desc_t d = xmp_desc_of(t1);
#pragma xmp loop [i][j] on s[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) { m[i][j] = i * N + j; q[i][j][1] = m[i][j] + 1; }
#pragma xmp loop on t1(i)
  for (i = 0; i < N; ++i) a[i] = b[i] = i;
#pragma xmp loop on t2(i)
  for (i = 0; i < N; ++i) { c[i] = -i; pts[i].x = i / 2.0; pts[i].n = i; }
#pragma xmp loop on w(i+1)
  for (i = 0; i < N; ++i) { CHECK(me % 2 == 1); o[i] = 5 * i; }
#pragma xmp reflect (a, b) width(1:2)
#pragma xmp reflect (b) width(/periodic/0:2)
#pragma xmp loop on t1(i)
  for (i = 0; i < N; ++i) CHECK(b[i + 2] == (i + 2) % N && (i == 0 || a[i - 1] == i - 1));
#pragma xmp gmove
  x = m[3][5];
  CHECK(x == 41);
#pragma xmp gmove
  *px = c[7];
  CHECK(x == -7);
  for (i = 0; i < N; i++) l[i] = 100 + i;
#pragma xmp gmove
  a[2:4] = l[1:4];
#pragma xmp loop on t1(i)
  for (i = 0; i < N; ++i) CHECK(a[i] == (i >= 2 && i < 6 ? 99 + i : i));
#pragma xmp gmove
  loc[0:N] = pts[0:N];
  for (i = 0; i < N; i++) CHECK(loc[i].x == i / 2.0 && loc[i].n == i);
#pragma xmp gmove
  l[:] = o[:];
  for (i = 0; i < N; i++) CHECK(l[i] == 5 * i);
#pragma xmp gmove
  m[0][:] = c[:];
#pragma xmp gmove
  c[:] = m[:][1];
#pragma xmp loop on t2(i)
  for (i = 0; i < N; ++i) CHECK(c[i] == (i ? i * N + 1 : -1));
  n = 0;
#pragma xmp loop (i) on s[i][:]
  for (i = 0; i < N; i++) n++;
  CHECK(n == N / 2);
  n = me;
#pragma xmp bcast (n) from t1(7)
  CHECK(n == 2);
#pragma xmp barrier on t1(0:5)
  n = 0;
#pragma xmp task on t1(0:5)
  n = xmp_num_nodes();
  CHECK(n == (me < 2 ? 2 : 0));
  x = me;
#pragma xmp reduction (max: x) on g[:][*]
  CHECK(x == me % 2 + 2);
  x = 1;
#pragma xmp reduction(+:x) on even
  CHECK(x == (me % 2 == 0 ? 2 : 1));
#pragma xmp loop on k[i]
  for (i = 1; i <= 100; i++) { CHECK((i - 1) / 25 == me); one_based[i - 1] = i; }
  n = 0;
#pragma xmp loop on k[i] reduction(+:n)
  for (i = 100; i >= 1; i -= 3) n += one_based[i - 1];
  CHECK(n == 1717);
  xmp_template_ubound(d, 1, &n);
  CHECK(n == N - 1);
#pragma xmp loop on p(i)
  for (i = 1; i <= 4; i++) CHECK(i == me + 1);
#pragma xmp loop on t1(i)
  for (i = 0; i < N; i++) {
    int *row = &b[i], *more = b + i;
    CHECK(*row == i && *more == i && more[0] == row[0]);
  }
  return wrong != 0;
}
