/* nodes: 3 */
/* Members of structures that are distributed. */
#include <xmp.h>
#include "check.h"
#define N 12
#define M 5
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
struct field {
  int n, steps;
  double a[N][M], b[N][M], scale, (*dyn)[M];
#pragma xmp align a[i][*] with t[i]
#pragma xmp align b[i][*] with t[i]
#pragma xmp shadow a[1][0]
#pragma xmp align dyn[i][*] with t[i]
  char name[8];
};
struct field f, g;
#pragma xmp nodes q[*]
typedef struct { float v[N]; int k;
#pragma xmp align [i] with t[i] :: v
} vec;
static vec x;
static double total(void)
{
  double s = 0;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) s += (f).b[i][j] * f.scale;
  return s;
}
int main(void)
{
  struct { int w[N];
#pragma xmp align w[i] with t[i]
  } local;
  double all[N][M]; float y[N]; int z = 0;
  f.n = N; f.scale = 2; x.k = 3; g.steps = 1;
#pragma xmp loop on t[i]
  for (int i = 0; i < f.n; i++) {
    for (int j = 0; j < M; j++) { f.a[i][j] = i * M + j; g.a[i][j] = -1; }
    x.v[i] = x.k * i;
    local.w[i] = i;
  }
#pragma xmp reflect (f.a)
#pragma xmp loop on t[i]
  for (int i = 1; i < N - 1; i++)
    for (int j = 0; j < M; j++) f.b[i][j] = f.a[i-1][j] + f.a[i+1][j] - f.a[i][j];
  double e = 0; for (int i = 1; i < N - 1; i++) for (int j = 0; j < M; j++) e += 2 * (i * M + j);
  CHECK(total() == e);
#pragma xmp gmove
  g.a[:][:] = f.b[:][:];
#pragma xmp gmove
  all[:][:] = g.a[:][:];
  for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) CHECK(all[i][j] == (i > 0 && i < N - 1 ? i * M + j : 0));
#pragma xmp array on t[:]
  x.v[:] = x.v[:] + 1;
#pragma xmp gmove
  y[:] = x.v[:];
  for (int i = 0; i < N; i++) CHECK(y[i] == 3 * i + 1);
#pragma xmp loop on t[i] reduction(+:z)
  for (int i = 0; i < N; i++) z += local.w[i];
  CHECK(z == N * (N - 1) / 2);
  f.dyn = (double (*)[M])xmp_malloc(xmp_desc_of(f.dyn), N, M);
#pragma xmp loop on t[i]
  for (int i = 0; i < N; i++) f.dyn[i][2] = i;
  double one;
#pragma xmp gmove
  one = f.dyn[7][2];
  CHECK(one == 7);
  int nd; xmp_array_ndims(xmp_desc_of(g.b), &nd); CHECK(nd == 2);
  return wrong != 0;
}
