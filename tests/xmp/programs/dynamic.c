/* nodes: 4 */
/* template_fix, xmp_malloc, pointers with several dimensions, *(p + i). */
#include <xmp.h>
#include <stdlib.h>
#include "check.h"
#pragma xmp nodes p[4]
#pragma xmp template t[:]
#pragma xmp template u[:][:]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute u[block][*] onto p
double *a;
#pragma xmp align a[i] with t[i]
float (*m)[5];
#pragma xmp align m[i][j] with u[i][j]
#pragma xmp shadow m[1][0]
int main(int argc, char *argv[])
{
  int n = argc > 5 ? 3 : 18, i, j, sum = 0;
#pragma xmp template_fix[block] t[n]
#pragma xmp template_fix[block][*] u[n][5]
  a = (double *)xmp_malloc(xmp_desc_of(a), n);
  m = (float (*)[5])xmp_malloc(xmp_desc_of(m), n, 5);
#pragma xmp loop on t[i]
  for (i = 0; i < n; i++) {
    *(a + i) = i;
    for (j = 0; j < 5; j++) m[i][j] = 10 * i + j;
  }
#pragma xmp reflect (m)
#pragma xmp loop on t[i] reduction(+:sum)
  for (i = 1; i < n - 1; i++) {
    CHECK(a[i] == i && *(*(m + i) + 2) == 10 * i + 2);
    CHECK(m[i - 1][4] == 10 * i - 6 && m[i + 1][4] == 10 * i + 14);
    sum += (int)*(a + i);
  }
  CHECK(sum == 16 * 17 / 2);
  xmp_free(xmp_desc_of(a));
  return wrong != 0;
}
