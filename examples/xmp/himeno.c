/* The stencil of the Himeno benchmark (size XS, S or M: -DSIZE=0, 1, 2), XcalableMP in the global view. The residual does not depend on the
 * number of nodes.
 *
 *   kumiki xmpcc -O3 himeno.c -o himeno && kumiki run -n 4 ./himeno
 */
#include <stdio.h>
#include <xmp.h>
#ifndef SIZE
#define SIZE 0
#endif
#if SIZE == 0
#define MI 33
#define MJ 33
#define MK 65
#elif SIZE == 1
#define MI 65
#define MJ 65
#define MK 129
#else
#define MI 129
#define MJ 129
#define MK 257
#endif
#ifndef STEPS
#define STEPS 20
#endif
#pragma xmp nodes n(1,*,*)
#pragma xmp template t(0:MK-1,0:MJ-1,0:MI-1)
#pragma xmp distribute t(block,block,block) onto n
static float p[MI][MJ][MK], a[4][MI][MJ][MK], b[3][MI][MJ][MK], c[3][MI][MJ][MK], bnd[MI][MJ][MK], wrk1[MI][MJ][MK], wrk2[MI][MJ][MK];
#pragma xmp align [i][j][k] with t(k,j,i) :: p, bnd, wrk1, wrk2
#pragma xmp align [*][i][j][k] with t(k,j,i) :: a, b, c
#pragma xmp shadow p[1][1][1]

static void start(void)
{
  int i, j, k;
#pragma xmp loop (k,j,i) on t(k,j,i)
  for (i = 0; i < MI; i++)
    for (j = 0; j < MJ; j++)
      for (k = 0; k < MK; k++) {
        a[0][i][j][k] = a[1][i][j][k] = a[2][i][j][k] = 1.0f;
        a[3][i][j][k] = 1.0f / 6.0f;
        b[0][i][j][k] = b[1][i][j][k] = b[2][i][j][k] = 0.0f;
        c[0][i][j][k] = c[1][i][j][k] = c[2][i][j][k] = 1.0f;
        p[i][j][k] = (float)(i * i) / (float)((MI - 1) * (MI - 1));
        wrk1[i][j][k] = 0.0f;
        bnd[i][j][k] = 1.0f;
      }
}

static double jacobi(int steps)
{
  int i, j, k, step;
  float s0, ss;
  double gosa = 0;
#pragma xmp reflect (p)
  for (step = 0; step < steps; step++) {
    gosa = 0;
#pragma xmp loop (k,j,i) on t(k,j,i) reduction(+:gosa)
    for (i = 1; i < MI - 1; i++)
      for (j = 1; j < MJ - 1; j++)
        for (k = 1; k < MK - 1; k++) {
          s0 = a[0][i][j][k] * p[i + 1][j][k] + a[1][i][j][k] * p[i][j + 1][k] + a[2][i][j][k] * p[i][j][k + 1]
               + b[0][i][j][k] * (p[i + 1][j + 1][k] - p[i + 1][j - 1][k] - p[i - 1][j + 1][k] + p[i - 1][j - 1][k])
               + b[1][i][j][k] * (p[i][j + 1][k + 1] - p[i][j - 1][k + 1] - p[i][j + 1][k - 1] + p[i][j - 1][k - 1])
               + b[2][i][j][k] * (p[i + 1][j][k + 1] - p[i - 1][j][k + 1] - p[i + 1][j][k - 1] + p[i - 1][j][k - 1])
               + c[0][i][j][k] * p[i - 1][j][k] + c[1][i][j][k] * p[i][j - 1][k] + c[2][i][j][k] * p[i][j][k - 1]
               + wrk1[i][j][k];
          ss = (s0 * a[3][i][j][k] - p[i][j][k]) * bnd[i][j][k];
          gosa += ss * ss;
          wrk2[i][j][k] = p[i][j][k] + 0.8f * ss;
        }
#pragma xmp loop (k,j,i) on t(k,j,i)
    for (i = 1; i < MI - 1; i++)
      for (j = 1; j < MJ - 1; j++)
        for (k = 1; k < MK - 1; k++)
          p[i][j][k] = wrk2[i][j][k];
#pragma xmp reflect (p)
  }
  return gosa;
}

int main(void)
{
  double gosa, begin, took;
  start();
#pragma xmp barrier
  begin = xmp_wtime();
  gosa = jacobi(STEPS);
  took = xmp_wtime() - begin;
#pragma xmp task on n(1,1,1)
  {
    printf("%d x %d x %d, %d steps: gosa %.6e\n", MI, MJ, MK, STEPS, gosa);
    fprintf(stderr, "%.1f MFLOPS\n", 34.0 * (MI - 2) * (MJ - 2) * (MK - 2) * STEPS / took * 1e-6);
  }
  return 0;
}
