/* nodes: 4 */
/* gmove between arrays whose elements are of different types: each is converted as an assignment of C does it. */
#include <complex.h>
#include <xmp.h>
#include "check.h"
#define N 23
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp template c[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute c[cyclic(2)] onto p
double d[N], two[N][5];
int i4[N];
float f[N];
char i1[N];
unsigned short u2[N];
long long i8[N];
_Bool truth[N];
double complex z[N];
float complex zf[N];
long double ld[N];
int turned[5][N];
#pragma xmp align [i] with t[i] :: d, f, i1, truth, z
#pragma xmp align [i] with c[i] :: i4, u2, i8, zf
#pragma xmp align ld[i] with c[i]
#pragma xmp align two[i][*] with t[i]
#pragma xmp align turned[*][i] with c[i]
#pragma xmp shadow d[2:1]
int main(void)
{
  int i, k, all[N], me = xmpc_node_num();
  float some[N];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    d[i] = i - 7.75;
    for (k = 0; k < 5; k++) two[i][k] = 10 * i + k + 0.5;
  }
#pragma xmp gmove
  i4[:] = d[:];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(i4[i] == (int)(i - 7.75));
#pragma xmp gmove
  f[:] = i4[:];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(f[i] == (int)(i - 7.75));
#pragma xmp gmove
  i8[0:10] = d[20:10:-2];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(i8[i] == (i < 10 ? (long long)(20 - 2 * i - 7.75) : 0));
#pragma xmp gmove
  i1[:] = i4[:];
#pragma xmp gmove
  u2[:] = i1[:];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(u2[i] == (unsigned short)(char)(int)(i - 7.75));
#pragma xmp gmove
  truth[:] = d[:];
#pragma xmp gmove
  truth[7] = i4[7];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(truth[i] == (i != 7));
#pragma xmp gmove
  z[:] = i4[:];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) z[i] += i * I;
#pragma xmp gmove
  zf[:] = z[:];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(crealf(zf[i]) == (int)(i - 7.75) && cimagf(zf[i]) == i);
#pragma xmp gmove
  f[:] = zf[:];
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(f[i] == (int)(i - 7.75));
#pragma xmp gmove
  ld[:] = d[:];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(ld[i] == i - 7.75L);
#pragma xmp gmove
  i4[3:4] = ld[10:4];
#pragma xmp loop on c[i]
  for (i = 3; i < 7; i++) CHECK(i4[i] == (int)(i + 7 - 7.75));
  /* Transposed rows, and what every node has. */
#pragma xmp gmove
  turned[1:3][:] = 0;
#pragma xmp gmove
  turned[2][:] = two[:][3];
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) CHECK(turned[2][i] == 10 * i + 3 && turned[1][i] == 0 && turned[4][i] == 0);
#pragma xmp gmove
  all[:] = d[:];
  for (i = 0; i < N; i++) CHECK(all[i] == (int)(i - 7.75)), some[i] = i + 0.25f;
#pragma xmp gmove
  d[:] = all[:];
#pragma xmp gmove
  i4[4:3] = some[2:3];
#pragma xmp loop on c[i]
  for (i = 4; i < 7; i++) CHECK(i4[i] == i - 2);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(d[i] == (int)(i - 7.75));
  /* Without waiting, and of one side. */
#pragma xmp gmove async(1)
  u2[0:N] = d[0:N];
#pragma xmp wait_async(1)
#pragma xmp loop on c[i]
  for (i = 8; i < N; i++) CHECK(u2[i] == (int)(i - 7.75));
  some[5] = -1;
#pragma xmp gmove in
  some[0:3] = i8[me:3];
  for (i = 0; i < 3; i++) CHECK(some[i] == (float)(long long)(20 - 2 * (me + i) - 7.75));
  CHECK(some[5] == -1);
#pragma xmp barrier
#pragma xmp gmove out
  i8[1:3] = d[9:3];
#pragma xmp loop on c[i]
  for (i = 1; i < 4; i++) CHECK(i8[i] == (long long)(i + 8 - 7.75));
  return wrong != 0;
}
