/* nodes: 4 */
/* Two heat problems of different sizes at once, each in a task on a half of the nodes; what they have found meets afterwards. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 24
#define M 16
#define STEPS 30
#pragma xmp nodes p[4]
#pragma xmp nodes left[2] = p[0:2]
#pragma xmp nodes right[2][1] = p[2:2]
#pragma xmp template tl[N][N]
#pragma xmp distribute tl[block][*] onto left
#pragma xmp template tr[M][M]
#pragma xmp distribute tr[block][block] onto right
double a[N][N], b[N][N], c[M][M], d[M][M];
#pragma xmp align [i][j] with tl[i][j] :: a, b
#pragma xmp align [i][j] with tr[i][j] :: c, d
#pragma xmp shadow a[1][0]
#pragma xmp shadow c[1:1][1:1]

static double first(int i, int j, int n) { return i == 0 || j == 0 || i == n - 1 || j == n - 1 ? i + 2. * j : 0; }

/* The same on one node. */
static double alone(int n, double *sum)
{
  static double u[N][N], v[N][N];
  double change = 0;
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) u[i][j] = first(i, j, n);
  for (int s = 0; s < STEPS; s++) {
    change = 0;
    for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) {
      v[i][j] = .25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]);
      change = fmax(change, fabs(v[i][j] - u[i][j]));
    }
    for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++) u[i][j] = v[i][j];
  }
  *sum = 0;
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) *sum += u[i][j];
  return change;
}

int main(void)
{
  double change = -1, sum = 0, want, wanted, both[2][2] = {{0}};
  int i, j, s;
#pragma xmp tasks
  {
#pragma xmp task on left
    {
#pragma xmp loop on tl[i][j]
      for (i = 0; i < N; i++) for (j = 0; j < N; j++) a[i][j] = first(i, j, N);
      for (s = 0; s < STEPS; s++) {
        change = 0;
#pragma xmp reflect (a)
#pragma xmp loop (i, j) on tl[i][j] reduction(max:change)
        for (i = 1; i < N - 1; i++)
          for (j = 1; j < N - 1; j++) {
            b[i][j] = .25 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
            change = fmax(change, fabs(b[i][j] - a[i][j]));
          }
#pragma xmp loop on tl[i][j]
        for (i = 1; i < N - 1; i++)
          for (j = 1; j < N - 1; j++) a[i][j] = b[i][j];
      }
#pragma xmp loop on tl[i][*] reduction(+:sum)
      for (i = 0; i < N; i++) for (j = 0; j < N; j++) sum += a[i][j];
      CHECK(xmp_num_nodes() == 2);
    }
#pragma xmp task on right
    {
#pragma xmp loop (j, i) on tr[i][j]
      for (i = 0; i < M; i++) for (j = 0; j < M; j++) c[i][j] = first(i, j, M);
      for (s = 0; s < STEPS; s++) {
        change = 0;
#pragma xmp reflect (c) width(1, 1) orthogonal
#pragma xmp loop on tr[i][j]
        for (i = 1; i < M - 1; i++)
          for (j = 1; j < M - 1; j++) {
            d[i][j] = .25 * (c[i - 1][j] + c[i + 1][j] + c[i][j - 1] + c[i][j + 1]);
            change = fmax(change, fabs(d[i][j] - c[i][j]));
          }
#pragma xmp reduction(max:change)
#pragma xmp loop on tr[i][j]
        for (i = 1; i < M - 1; i++)
          for (j = 1; j < M - 1; j++) c[i][j] = d[i][j];
      }
#pragma xmp loop on tr[i][j]
      for (i = 0; i < M; i++) for (j = 0; j < M; j++) sum += c[i][j];
#pragma xmp reduction(+:sum) on right
    }
  }
  both[0][0] = both[1][0] = change;
  both[0][1] = both[1][1] = sum;
#pragma xmp bcast (both[0]) from p[0]
#pragma xmp bcast (both[1]) from p[2] on p
  want = alone(N, &wanted);
  CHECK(fabs(both[0][0] - want) < 1e-12 && fabs(both[0][1] - wanted) < 1e-8);
  want = alone(M, &wanted);
  CHECK(fabs(both[1][0] - want) < 1e-12 && fabs(both[1][1] - wanted) < 1e-8);
  return wrong != 0;
}
