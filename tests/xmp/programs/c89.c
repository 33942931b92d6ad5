/* nodes: 2 */
/* flags: -std=c89 */
/* A program of 1989. */
#include <xmp.h>
#include <stdio.h>
#define N 9
#pragma xmp nodes p(2)
#pragma xmp template t(0:N-1)
#pragma xmp distribute t(cyclic) onto p
double a[N][2];
#pragma xmp align a[i][*] with t(i)
static double scale(v, n) double *v; int n; { int i; double s = 0; for (i = 0; i < n; i++) s += v[i]; return s; }
main(argc, argv) int argc; char **argv;
{
  int i, j, bad = 0;
  double all[N][2], s = 0;
#pragma xmp loop (i) on t(i)
  for (i = 0; i < N; i++) for (j = 0; j < 2; j++) a[i][j] = i + j;
#pragma xmp loop (i) on t(i) reduction(+:s)
  for (i = 0; i < N; i++) s += scale(a[i], 2);
  if (s != 81) bad = 1;
#pragma xmp gmove
  all[:][:] = a[:][:];
  for (i = 0; i < N; i++) if (all[i][1] != i + 1) bad = 1;
  return bad || argc != 1;
}
