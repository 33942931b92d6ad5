/* nodes: 4 */
/* A wave with three time levels in one array: reflect without waiting, the inside meanwhile, then the margin; the same as in one go. */
#include <math.h>
#include <string.h>
#include <xmp.h>
#include "check.h"
#define N 18
#define M 15
#define STEPS 12
#pragma xmp nodes p[2][2]
#pragma xmp template t[N][M]
#pragma xmp distribute t[block][block] onto p
float u[3][N][M];
double old[N][M], now[N][M], next[N][M];
#pragma xmp align u[*][i][j] with t[i][j]
#pragma xmp shadow u[0][1][1]
#pragma xmp align [i][j] with t[i][j] :: old, now, next
#pragma xmp shadow now[1][1]

static double first(int i, int j) { return i == 5 && j == 6 ? 100 : i == 12 && j == 3 ? -50 : 0; }

int main(void)
{
  static double a[3][N][M];
  double off = 0;
  int i, j, s;
  memset(a, 0, sizeof a);
#pragma xmp loop on t[i][j]
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) {
    old[i][j] = now[i][j] = first(i, j);
    u[0][i][j] = u[1][i][j] = first(i, j);
    next[i][j] = u[2][i][j] = 0;
  }
  for (i = 0; i < N; i++) for (j = 0; j < M; j++) a[0][i][j] = a[1][i][j] = first(i, j);
  for (s = 0; s < STEPS; s++) {
    int o = s % 3, n = (s + 1) % 3, x = (s + 2) % 3;
#pragma xmp reflect (now) async(s)
#pragma xmp reflect (u)
#pragma xmp loop on t[i][j] peel_and_wait(s, 1, 1)
    for (i = 1; i < N - 1; i++)
      for (j = 1; j < M - 1; j++)
        next[i][j] = 2 * now[i][j] - old[i][j] + .2 * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1] - 4 * now[i][j]);
#pragma xmp loop on t[i][j]
    for (i = 1; i < N - 1; i++)
      for (j = 1; j < M - 1; j++)
        u[x][i][j] = 2 * u[n][i][j] - u[o][i][j] + .2f * (u[n][i - 1][j] + u[n][i + 1][j] + u[n][i][j - 1] + u[n][i][j + 1] - 4 * u[n][i][j]);
#pragma xmp array on t[:][:]
    old[:][:] = now[:][:];
#pragma xmp array on t
    now[:][:] = next[:][:];
    for (i = 1; i < N - 1; i++) for (j = 1; j < M - 1; j++)
      a[x][i][j] = 2 * a[n][i][j] - a[o][i][j] + .2 * (a[n][i - 1][j] + a[n][i + 1][j] + a[n][i][j - 1] + a[n][i][j + 1] - 4 * a[n][i][j]);
  }
#pragma xmp loop on t[i][j] reduction(max:off)
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) {
      double want = a[(STEPS + 1) % 3][i][j];
      off = fmax(off, fabs(now[i][j] - want));
      if (fabs(u[(STEPS + 1) % 3][i][j] - want) > 1e-3) off = 1;
    }
  CHECK(off < 1e-10);
#pragma xmp wait_async (99, 100)
  CHECK(xmp_test_async(99));
  return wrong != 0;
}
