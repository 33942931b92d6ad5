/* nodes: 4 */
/* Sizes of rows, steps that only the program knows, coarrays read backwards and in members, registers, pointers in arrays, rows with a shadow as arguments. */
/* flags: -Werror=incompatible-pointer-types */
#include <xmp.h>
#include "check.h"
#define N 20
#define M 6
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
double a[N][M], v[N], rows[3][N];
float f[N], g[N], *leads[2];
#pragma xmp align a[i][*] with t[i]
#pragma xmp shadow a[1][1]
#pragma xmp align rows[*][i] with t[i]
#pragma xmp align [i] with t[i] :: v, f, g
int y[M]:[*];
struct pair { int n, v[M]; } s:[*];
int h[N], off[N];

static void set(double x[N][M])
{
#pragma xmp align x[i][*] with t[i]
#pragma xmp shadow x[1][1]
  int i, j;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) x[i][j] = i * 10 + j;
}

static void images(void)
{
  int i, l[M], next = (xmpc_this_image() + 1) % xmp_num_images();
  for (i = 0; i < M; i++) s.v[i] = y[i] = xmpc_this_image() * 10 + i;
  xmp_sync_all(NULL);
  l[:] = y[::-1]:[next] + 1;
  for (i = 0; i < M; i++) CHECK(l[i] == next * 10 + M - i);
  l[0:3] = s.v[1:3]:[next];
  CHECK(l[0] == next * 10 + 1 && l[2] == next * 10 + 3);
  l[0:M] = s.v[::-1]:[next];
  CHECK(l[0] == next * 10 + M - 1 && l[M - 1] == next * 10);
  i = s.v[2]:[next];
  CHECK(i == next * 10 + 2);
  xmp_sync_all(NULL);
}

int main(void)
{
  int i, j, n = 0, down = -1, up = 3;
  register int held = 0;
  CHECK(sizeof(rows) / sizeof(rows[0]) == 3 && sizeof(rows[0]) / sizeof(rows[0][0]) == N);
#pragma xmp loop on t[i] reduction(+:n)
  for (i = N - 1; i >= 0; i += down) n += i;
  CHECK(n == 190);
#pragma xmp loop on t[i] reduction(+:held)
  for (i = 0; i < N; i += up) held += i;
  CHECK(held == 63);
  set(a);
#pragma xmp array on t
  v[:] = 2;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    CHECK(v[i] == 2);
    for (j = 0; j < M; j++) CHECK(a[i][j] == i * 10 + j);
  }
  images();
  leads[0] = f;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { f[i] = 1; g[i] = 1; }
  j = -1;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    if (j < 0) j = i;
    else f[i] = leads[0][i - j - 1] + g[i];
  }
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(f[i] == i - j + 1);
  for (i = 0; i < N; i++) { h[i] = 0; off[i] = i % 4 - i; }
#pragma xmp loop on t[i] reduction(+:h)
  for (i = 0; i < N; i++) {
    int k = off[i];
    h[i + k] += (int)g[i];
  }
  CHECK(h[0] == N / 4 && h[4] == 0);
  return wrong != 0;
}
