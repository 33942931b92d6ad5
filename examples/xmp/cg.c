/* The conjugate gradient kernel of the NAS benchmarks: the smallest eigenvalue of a sparse matrix. Rows and columns are spread over a grid of nodes.
 * -DCLASS=0 is class S, 1 W, 2 A.
 *
 *   kumiki xmpcc -O3 cg.c -o cg -lm && kumiki run -n 4 ./cg
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmp.h>
#ifndef CLASS
#define CLASS 0
#endif
#if CLASS == 0
#define NA 1400
#define NONZER 7
#define NITER 15
#define SHIFT 10.0
#define ZETA 8.5971775078648
#elif CLASS == 1
#define NA 7000
#define NONZER 8
#define NITER 15
#define SHIFT 12.0
#define ZETA 10.362595087124
#else
#define NA 14000
#define NONZER 11
#define NITER 15
#define SHIFT 20.0
#define ZETA 17.130235054029
#endif
#define RCOND 0.1
#define NZ (NA * (NONZER + 1) * (NONZER + 1) + NA * (NONZER + 2))
#pragma xmp nodes proc(*,*)
#pragma xmp nodes row(*) = proc(:,*)
#pragma xmp template t(0:NA-1,0:NA-1)
#pragma xmp distribute t(block,block) onto proc
static double x[NA], z[NA], p[NA], q[NA], r[NA], w[NA];
#pragma xmp align [i] with t(i,*) :: x, z, p, q, r
#pragma xmp align w[i] with t(*,i)
static double a[NZ];
static int colidx[NZ], rowstr[NA + 1];
static double tran = 314159265.0, amult = 1220703125.0;

static double randlc(double *seed, double mult)
{
  const double r23 = 1.0 / (1 << 23), t23 = 1 << 23, r46 = r23 * r23, t46 = t23 * t23;
  double a1 = (int)(r23 * mult), a2 = mult - t23 * a1, x1 = (int)(r23 * *seed), x2 = *seed - t23 * x1;
  double t1 = a1 * x2 + a2 * x1, y = t1 - t23 * (int)(r23 * t1), t3 = t23 * y + a2 * x2;
  *seed = t3 - t46 * (int)(r46 * t3);
  return r46 * *seed;
}

/* One sparse vector of n elements, as the benchmark defines it. */
static void sprnvc(int n, int nz, double v[], int iv[])
{
  int nzv = 0, i, nn1 = 1;
  while (nn1 < n) nn1 *= 2;
  while (nzv < nz) {
    double value = randlc(&tran, amult), place = randlc(&tran, amult);
    int at = (int)(nn1 * place) + 1, known = 0;
    if (at > n) continue;
    for (i = 0; i < nzv; i++) if (iv[i] == at) known = 1;
    if (known) continue;
    v[nzv] = value;
    iv[nzv++] = at;
  }
}

/* The matrix, on every node; only rows and columns that this node has are kept. */
static void makea(int first_row, int last_row, int first_column, int last_column)
{
  static int arow[NA], acol[NA][NONZER + 1];
  static double aelt[NA][NONZER + 1];
  double vc[NONZER + 1], size = 1.0, ratio = pow(RCOND, 1.0 / NA);
  int ivc[NONZER + 1], i, j, e, f, k, nz, place;
  for (i = 0; i < NA; i++) {
    int nzv = NONZER, known = 0;
    sprnvc(NA, nzv, vc, ivc);
    for (k = 0; k < nzv; k++) if (ivc[k] == i + 1) { vc[k] = 0.5; known = 1; }
    if (!known) { vc[nzv] = 0.5; ivc[nzv++] = i + 1; }
    arow[i] = nzv;
    for (k = 0; k < nzv; k++) { acol[i][k] = ivc[k] - 1; aelt[i][k] = vc[k]; }
  }
  for (j = 0; j <= NA; j++) rowstr[j] = 0;
  for (i = 0; i < NA; i++)
    for (e = 0; e < arow[i]; e++) if (acol[i][e] >= first_row && acol[i][e] <= last_row) rowstr[acol[i][e] + 1] += arow[i];
  for (j = 0; j < NA; j++) rowstr[j + 1] += rowstr[j];
  for (k = 0; k < rowstr[NA]; k++) colidx[k] = -1, a[k] = 0;
  for (i = 0; i < NA; i++) {
    for (e = 0; e < arow[i]; e++) {
      j = acol[i][e];
      if (j < first_row || j > last_row) continue;
      for (f = 0; f < arow[i]; f++) {
        int column = acol[i][f];
        double value = aelt[i][f] * size * aelt[i][e];
        if (column == j && j == i) value += RCOND - SHIFT;
        for (k = rowstr[j]; k < rowstr[j + 1] && colidx[k] != -1 && colidx[k] != column; k++);
        colidx[k] = column;
        a[k] += value;
      }
    }
    size *= ratio;
  }
  /* Closed up, and only the columns of this node. */
  for (place = 0, j = 0, nz = 0; j < NA; j++) {
    int begin = nz, end = rowstr[j + 1];
    nz = end;
    rowstr[j] = place;
    for (k = begin; k < end; k++)
      if (colidx[k] >= first_column && colidx[k] <= last_column) { a[place] = a[k]; colidx[place++] = colidx[k]; }
  }
  rowstr[NA] = place;
}

/* to = A from */
static void multiply(double to[NA], double from[NA])
{
#pragma xmp align to[i] with t(i,*)
#pragma xmp align from[i] with t(i,*)
  int j, k;
#pragma xmp loop (j) on t(*,j)
  for (j = 0; j < NA; j++) {
    double sum = 0;
    for (k = rowstr[j]; k < rowstr[j + 1]; k++) sum += a[k] * from[colidx[k]];
    w[j] = sum;
  }
#pragma xmp reduction(+:w) on row
#pragma xmp gmove
  to[:] = w[:];
}

static double conj_grad(void)
{
  double rho = 0, sum = 0;
  int j, it;
#pragma xmp loop (j) on t(j,*) reduction(+:rho)
  for (j = 0; j < NA; j++) {
    q[j] = z[j] = 0;
    r[j] = p[j] = x[j];
    rho += r[j] * r[j];
  }
  for (it = 0; it < 25; it++) {
    double d = 0, rho0 = rho, alpha, beta;
    multiply(q, p);
#pragma xmp loop (j) on t(j,*) reduction(+:d)
    for (j = 0; j < NA; j++) d += p[j] * q[j];
    alpha = rho / d;
    rho = 0;
#pragma xmp loop (j) on t(j,*) reduction(+:rho)
    for (j = 0; j < NA; j++) {
      z[j] += alpha * p[j];
      r[j] -= alpha * q[j];
      rho += r[j] * r[j];
    }
    beta = rho / rho0;
#pragma xmp loop (j) on t(j,*)
    for (j = 0; j < NA; j++) p[j] = r[j] + beta * p[j];
  }
  multiply(r, z);
#pragma xmp loop (j) on t(j,*) reduction(+:sum)
  for (j = 0; j < NA; j++) sum += (x[j] - r[j]) * (x[j] - r[j]);
  return sqrt(sum);
}

int main(void)
{
  double zeta = 0, rnorm = 0, begin, took;
  int it, j, first_row, last_row, first_column, last_column;
  zeta = randlc(&tran, amult);
  first_row = xmp_array_gcllbound(xmp_desc_of(w), 1);
  last_row = xmp_array_gclubound(xmp_desc_of(w), 1);
  first_column = xmp_array_gcllbound(xmp_desc_of(x), 1);
  last_column = xmp_array_gclubound(xmp_desc_of(x), 1);
  makea(first_row, last_row, first_column, last_column);
#pragma xmp loop (j) on t(j,*)
  for (j = 0; j < NA; j++) x[j] = 1.0;
#pragma xmp barrier
  begin = xmp_wtime();
  for (it = 0; it < NITER; it++) {
    double xz = 0, zz = 0;
    rnorm = conj_grad();
#pragma xmp loop (j) on t(j,*) reduction(+:xz,zz)
    for (j = 0; j < NA; j++) {
      xz += x[j] * z[j];
      zz += z[j] * z[j];
    }
    zz = 1.0 / sqrt(zz);
    zeta = SHIFT + 1.0 / xz;
#pragma xmp loop (j) on t(j,*)
    for (j = 0; j < NA; j++) x[j] = zz * z[j];
  }
  took = xmp_wtime() - begin;
#pragma xmp task on proc(1,1)
  {
    printf("zeta %.10f, residual %s\n", zeta, rnorm < 1e-10 ? "small" : "large");
    fprintf(stderr, "%.3f s\n", took);
  }
  return fabs(zeta - ZETA) > 1e-10 * ZETA;
}
