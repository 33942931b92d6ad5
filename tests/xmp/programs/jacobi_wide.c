/* nodes: 3 */
/* A stencil that reaches two cells up and one down, in rounds with shadows of several widths; the halo beyond the domain is the program's. */
#include <xmp.h>
#include "check.h"
#define N 17
#define M 9
#pragma xmp nodes p(*)
#pragma xmp template t(0:M-1,0:N-1)
#pragma xmp distribute t(*,block) onto p
int a[N][M], b[N][M], all[N][M];
#pragma xmp align [i][j] with t(j,i) :: a, b
#pragma xmp shadow a[1:2][0:1]
#pragma xmp shadow b[2][0]

static int at(int u[N][M], int i, int j) { return i < 0 || i >= N ? -1 : j >= M ? -2 : u[i][j]; }

int main(void)
{
  static int u[N][M], v[N][M];
  int i, j, s;
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) u[i][j] = i * i + j;
#pragma xmp loop on t(*,i) expand(/unbound/1:2)
  for (i = 0; i < N; i++) for (j = 0; j <= M; j++) a[i][j] = i < 0 || i >= N ? -1 : j == M ? -2 : i * i + j;
#pragma xmp loop (i) on t(*,i)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[i][j] = i * i + j;
  for (s = 0; s < 5; s++) {
#pragma xmp reflect (a) width(1:2, 0)
#pragma xmp loop (i, j) on t(j,i)
    for (i = 0; i < N; i++)
      for (j = 0; j < M; j++) b[i][j] = (3 * a[i][j] + a[i - 1][j] - 2 * a[i + 1][j] + a[i + 2][j] + a[i][j + 1]) % 1009;
#pragma xmp loop (j, i) on t(j,i)
    for (i = N - 1; i >= 0; i--)
      for (j = 0; j < M; j += 1) a[i][j] = b[i][j];
    for (i = 0; i < N; i++) for (j = 0; j < M; j++)
      v[i][j] = (3 * u[i][j] + at(u, i - 1, j) - 2 * at(u, i + 1, j) + at(u, i + 2, j) + at(u, i, j + 1)) % 1009;
    for (i = 0; i < N; i++) for (j = 0; j < M; j++) u[i][j] = v[i][j];
  }
#pragma xmp gmove
  all[:][:] = a[:][:];
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) CHECK(all[i][j] == u[i][j]);
  /* Around the ring, two wide on both sides, and one wide on one. */
#pragma xmp reflect (b) width(/periodic/2, 0)
#pragma xmp loop on t(*,i)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) {
    CHECK(b[i - 2][j] == u[(i + N - 2) % N][j] && b[i - 1][j] == u[(i + N - 1) % N][j]);
    CHECK(b[i + 2][j] == u[(i + 2) % N][j]);
  }
#pragma xmp loop on t(*,i)
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) b[i][j] = i;
#pragma xmp reflect (b) width(0:1, 0)
#pragma xmp loop on t(*,i)
  for (i = 0; i < N - 1; i++) CHECK(b[i + 1][0] == i + 1);
  return wrong != 0;
}
