/* nodes: 4 */
/* Where run times go wrong: nests in order that go down, tasks with loops, nodes without elements, arrays that not all make, what is not waited for. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 24
#define FEW 5
#pragma xmp nodes p[4]
#pragma xmp nodes g[2][2]
#pragma xmp template t[N]
#pragma xmp template u[N]
#pragma xmp template few[FEW]
#pragma xmp template s[N][N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[cyclic(2)] onto p
#pragma xmp distribute few[block] onto p
#pragma xmp distribute s[block][block] onto g
int a[N], b[3][N], index_of[N], small[FEW], copies[N];
short near[N];
double v[N], w[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align b[*][i] with u[i]
#pragma xmp align index_of[i] with t[i]
#pragma xmp align near[i] with t[i]
#pragma xmp align v[i] with t[i]
#pragma xmp align w[i] with t[i]
#pragma xmp align small[i] with few[i]
#pragma xmp align copies[i] with s[i][*]
#pragma xmp shadow a[1]

static void order(void)
{
  int i, k, m = -1, row = -1, column = -1;
#pragma xmp loop (i) on u[i]
  for (i = 0; i < N; i++) for (k = 0; k < 3; k++) b[k][i] = i % 5 == 3 ? 7 : 0;
#pragma xmp loop (k, i) on u[i] reduction(firstmax:m/row, column/)
  for (k = 2; k >= 0; k--)
    for (i = N - 1; i >= 0; i--)
      if (b[k][i] > m) { m = b[k][i]; row = k; column = i; }
  CHECK(m == 7 && row == 2 && column == 23);
}

static void in_task(void)
{
  int i, n = 0;
#pragma xmp task on p[1:2]
  {
#pragma xmp loop on t[i] reduction(+:n)
    for (i = 0; i < N; i++) n += i;
    CHECK(n == (6 + 17) * 12 / 2);
  }
}

/* Node 3 has nothing of it. */
static void dummy(int x[FEW])
{
#pragma xmp align x[i] with few[i]
  int i, got[FEW], one = 0;
#pragma xmp gmove in
  got[:] = x[:];
  for (i = 0; i < FEW; i++) CHECK(got[i] == 10 + i);
#pragma xmp gmove out
  one = x[3];
  CHECK(one == 13);
}

/* Not all nodes make the first one. */
static void unequal(void)
{
  int round, i, got[N];
#pragma xmp task on p[2] nocomm
  {
    int mine[N];
#pragma xmp align mine[i] with t[i]
    (void)xmp_desc_of(mine);
  }
  for (round = 0; round < 200; round++) {
    int local[N];
#pragma xmp align local[i] with t[i]
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) local[i] = round + i;
#pragma xmp gmove in
    got[:] = local[:];
    CHECK(got[0] == round && got[N - 1] == round + N - 1);
  }
}

/* Started, and the array is gone before anybody waits. */
static void open_end(void)
{
  int i;
  {
    int local[N];
#pragma xmp align local[i] with t[i]
#pragma xmp shadow local[1]
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) local[i] = -1;
#pragma xmp reflect (local) async(5)
  }
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i;
#pragma xmp reflect (a)
#pragma xmp loop on t[i]
  for (i = 1; i < N - 1; i++) CHECK(a[i - 1] == i - 1 && a[i + 1] == i + 1);
#pragma xmp reflect (a) async(6)
}

static void elements(void)
{
  int i;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { near[i] = N - 1 - i; index_of[i] = 100 + i; v[i] = i % 7 == 2 ? NAN : (i * 5) % N; }
  xmp_scatter(xmp_desc_of(copies), xmp_desc_of(index_of), xmp_desc_of(near));
#pragma xmp loop on s[i][*]
  for (i = 0; i < N; i++) CHECK(copies[i] == 100 + N - 1 - i);
  xmp_sort_up(xmp_desc_of(w), xmp_desc_of(v));
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(i < N - 4 ? !isnan(w[i]) : isnan(w[i]));
}

int main(void)
{
  int i;
#pragma xmp loop on few[i]
  for (i = 0; i < FEW; i++) small[i] = 10 + i;
  order();
  in_task();
  dummy(small);
  unequal();
  elements();
  open_end();
  return wrong != 0;
}
