/* nodes: 4 */
/* The transformational functions in a computation: least squares by matmul and transpose, ranking by sort, choosing by pack, putting back by unpack and scatter. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 16
#define K 3
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
#pragma xmp template c[N]
#pragma xmp distribute c[cyclic] onto p
#pragma xmp template k[K]
#pragma xmp distribute k[block] onto p
double a[N][K], at[K][N], ata[K][K], x[N], y[N], some[N];
int mask[N], where[N];
#pragma xmp align a[i][*] with t[i]
#pragma xmp align at[i][*] with k[i]
#pragma xmp align ata[i][*] with k[i]
#pragma xmp align x[i] with t[i]
#pragma xmp align [i] with c[i] :: y, mask, where, some

int main(void)
{
  double l[K][K], v[N];
  int i, j, m;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { for (j = 0; j < K; j++) a[i][j] = pow(i, j); x[i] = (i * 7) % N; }
  xmp_transpose(xmp_desc_of(at), xmp_desc_of(a), 1);
  xmp_matmul(xmp_desc_of(ata), xmp_desc_of(at), xmp_desc_of(a));
#pragma xmp gmove
  l[:][:] = ata[:][:];
  for (i = 0; i < K; i++) for (j = 0; j < K; j++) {
    double want = 0;
    for (m = 0; m < N; m++) want += pow(m, i) * pow(m, j);
    CHECK(fabs(l[i][j] - want) < 1e-9 * want);
  }
  xmp_sort_up(xmp_desc_of(y), xmp_desc_of(x));
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) { CHECK(y[i] == i); mask[i] = i % 3 == 1; where[i] = N - 1 - i; some[i] = -1; }
  xmp_sort_down(xmp_desc_of(x), xmp_desc_of(y));
#pragma xmp gmove
  v[:] = x[:];
  for (i = 0; i < N; i++) CHECK(v[i] == N - 1 - i);
  xmp_pack(xmp_desc_of(some), xmp_desc_of(y), xmp_desc_of(mask));
#pragma xmp gmove
  v[:] = some[:];
  for (i = 0; i < 5; i++) CHECK(v[i] == 3 * i + 1);
  xmp_gather(xmp_desc_of(x), xmp_desc_of(y), xmp_desc_of(where));
#pragma xmp gmove
  v[:] = x[:];
  for (i = 0; i < N; i++) CHECK(v[i] == N - 1 - i);
  xmp_scatter(xmp_desc_of(some), xmp_desc_of(x), xmp_desc_of(where));
#pragma xmp gmove
  v[:] = some[:];
  for (i = 0; i < N; i++) CHECK(v[i] == i);
  return wrong != 0;
}
