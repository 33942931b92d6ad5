/* nodes: 4 */
/* Rows, members and aligned arrays in reductions; offsets without a sign; gather and scatter of arrays by their names. */
#include <xmp.h>
#include "check.h"
#define N 8
#pragma xmp nodes p(2,2)
#pragma xmp nodes q[4]
#pragma xmp template t(0:N-1,0:N-1)
#pragma xmp distribute t(block,block) onto p
#pragma xmp template l[N]
#pragma xmp distribute l[block] onto q
double w[N], x[N], a[N][N];
#pragma xmp align w[i] with t(*,i)
#pragma xmp align x[i] with t(i,*)
#pragma xmp align a[i][j] with t(j,i)
int from[N], to[N], at[N];
#pragma xmp align [i] with l[i] :: from, to, at
unsigned two = 2;
struct counts { double d; int n[3]; short m[2][2]; } all;

int main(void)
{
  int i, j, c = 0;
  double rows[3][2] = { { 1, 1 }, { 1, 1 }, { 1, 1 } };
  struct counts *one = &all;
#pragma xmp reduction(+:rows[2])
  CHECK(rows[2][0] == 4 && rows[2][1] == 4 && rows[1][1] == 1);
  for (i = 0; i < 3; i++) all.n[i] = i;
  all.d = all.m[1][1] = 1;
#pragma xmp reduction(+:all.n, all.m, one->d)
  CHECK(all.n[0] == 0 && all.n[2] == 8 && all.m[1][1] == 4 && all.m[0][1] == 0 && all.d == 4);
  all.n[0] = all.n[1] = 0;
#pragma xmp loop on l[i] reduction(+:all.n)
  for (i = 0; i < N; i++) all.n[i % 2]++;
  CHECK(all.n[0] == N / 2 && all.n[1] == N / 2 && all.n[2] == 8);
#pragma xmp loop (i,j) on t(j,i)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) { a[i][j] = i; w[i] = 1; x[j] = 1; }
#pragma xmp loop (i,j) on t(j,i) reduction(+:w)
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) w[i] += a[i][j] * x[j];
#pragma xmp loop on t(*,i)
  for (i = 0; i < N; i++) CHECK(w[i] == 1 + i * N);
#pragma xmp loop on l[i-two] reduction(+:c)
  for (i = 2; i < N + 2; i++) c++;
  CHECK(c == N);
#pragma xmp loop on l[i]
  for (i = 0; i < N; i++) { from[i] = i * i; at[i] = N - 1 - i; }
  xmp_gather(to[:], from[:], at[:]);
#pragma xmp loop on l[i]
  for (i = 0; i < N; i++) { CHECK(to[i] == (N - 1 - i) * (N - 1 - i)); from[i] = i; }
  xmp_scatter(to, from, at);
#pragma xmp loop on l[i]
  for (i = 0; i < N; i++) CHECK(to[i] == N - 1 - i);
  return wrong != 0;
}
