/* nodes: 4 */
/* What is legal only because an aligned array is no array of C: sizes that are variables, at file scope. */
#include <xmp.h>
#include "check.h"
int n = 4;
static const int N = 10;
enum { K = 3 };
#pragma xmp nodes p(*)
#pragma xmp template t(0:N-1)
#pragma xmp distribute t(block) onto p
#pragma xmp template s(n, n)
#pragma xmp distribute s(*, cyclic) onto p
int a[N], plain[3], b[n][n];
double *unused, c[N][K];
#pragma xmp align a[i] with t(i)
#pragma xmp align b[i][j] with s(j+1,i+1)
#pragma xmp align c[i][*] with t(i)
int x[N]:[*], (*pointer)(void);
typedef double row[5];
row r[N];
#pragma xmp align r[i][*] with t(i)
struct { int key; float f[2]; } st[N], one;
#pragma xmp align st[i] with t(i)
struct tag { char c; } tagged[N];
#pragma xmp align tagged[i] with t(i)
int main()
{
  int i, j, sum = 0;
  plain[1] = 2;
  one.key = 4;
#pragma xmp loop (i) on t(i)
  for (i = 0; i < N; i++) {
    a[i] = i;
    c[i][K - 1] = i;
    r[i][4] = i;
    st[i].key = i;
    st[i].f[1] = 0.5f * i;
    tagged[i].c = 'a' + i;
  }
#pragma xmp loop (i,j) on s(j+1,i+1)
  for (i = 0; i < n; i++) for (j = 0; j < n; j++) b[i][j] = i * n + j;
#pragma xmp loop (i) on t(i) reduction(+:sum)
  for (i = 0; i < N; i++) {
    sum += a[i] + (int)c[i][2] + (int)r[i][4] + st[i].key;
    CHECK(st[i].f[1] == 0.5f * i && tagged[i].c == 'a' + i);
  }
  CHECK(sum == 180);
  sum = 0;
#pragma xmp loop (i,j) on s(j+1,i+1) reduction(+:sum)
  for (i = 0; i < n; i++) for (j = 0; j < n; j++) sum += b[i][j];
  CHECK(sum == 120 && plain[1] == 2 && one.key == 4 && unused == 0);
  x[3] = xmpc_node_num();
  xmp_sync_all(NULL);
  CHECK(x[3]:[2] == 2 && sizeof(x) == 10 * sizeof(int));
  return wrong != 0;
}
