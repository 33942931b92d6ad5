/* nodes: 4 */
/* Transformational functions, by descriptors and by names. */
#include <xmp.h>
#include "check.h"
#define N 8
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double a[N][N], b[N][N], c[N][N];
int v[N], w[N];
#pragma xmp align a[i][*] with t[i]
#pragma xmp align b[i][*] with t[i]
#pragma xmp align c[*][i] with t[i]
#pragma xmp align v[i] with t[i]
#pragma xmp align w[i] with t[i]
int main(void)
{
  int i, j;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    v[i] = (5 * i) % N;
    for (j = 0; j < N; j++) { a[i][j] = 10 * i + j; b[i][j] = i == j ? 2 : 0; }
  }
  xmp_matmul(xmp_desc_of(c), xmp_desc_of(a), xmp_desc_of(b));
#pragma xmp loop on t[j]
  for (j = 0; j < N; j++) for (i = 0; i < N; i++) CHECK(c[i][j] == 20 * i + 2 * j);
  xmp_transpose(b[:][:], a[:][:], 0);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) for (j = 0; j < N; j++) CHECK(b[i][j] == 10 * j + i);
  xmp_sort_up(xmp_desc_of(w), xmp_desc_of(v));
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(w[i] == i);
  xmp_sort_down(w, v);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(w[i] == N - 1 - i);
  return wrong != 0;
}
