/* nodes: 4 */
/* Rows whose length the declaration does not say, or that is another one for each array. */
#include <xmp.h>
#include "check.h"
static const int COLUMNS = 6;
int lines = 9;
#pragma xmp nodes p[*]
#pragma xmp template t[12]
#pragma xmp distribute t[block] onto p
#pragma xmp template u[9][6]
#pragma xmp distribute u[block][*] onto p
double (*a)[12], (*b)[12];
#pragma xmp align [*][i] with t[i] :: a, b
double (*c)[5];
#pragma xmp align c[i][*] with t[i]
float (*pa)[COLUMNS];
static float (*pb)[COLUMNS] = 0;
#pragma xmp align [i][j] with u[i][j] :: pa, pb

static void allocated(void)
{
  int i, j;
  double l[4][10], m[8][7];
  a = xmp_malloc(xmp_desc_of(a), 4, 12);
  b = xmp_malloc(xmp_desc_of(b), 4, 10);
#pragma xmp loop on t[i]
  for (i = 0; i < 10; i++)
    for (j = 0; j < 4; j++) { a[j][i] = j * 10 + i; b[j][i] = j * 100 + i; }
#pragma xmp gmove
  l[:][:] = b[:][:];
  for (i = 0; i < 10; i++)
    for (j = 0; j < 4; j++) CHECK(l[j][i] == j * 100 + i);
  c = xmp_malloc(xmp_desc_of(c), 8, 7);
#pragma xmp loop on t[i]
  for (i = 0; i < 8; i++)
    for (j = 0; j < 7; j++) c[i][j] = i * 10 + j;
#pragma xmp gmove
  m[:][:] = c[:][:];
  for (i = 0; i < 8; i++)
    for (j = 0; j < 7; j++) CHECK(m[i][j] == i * 10 + j);
}

static void variable(void)
{
  int i, j, n = 9;
  double x[4][n], l[4][7];
#pragma xmp align x[*][i] with t[i]
  n = 7;
  double y[4][n];
#pragma xmp align y[*][i] with t[i]
#pragma xmp loop on t[i]
  for (i = 0; i < 7; i++)
    for (j = 0; j < 4; j++) { x[j][i] = j * 10 + i; y[j][i] = j * 100 + i; }
#pragma xmp gmove
  l[:][:] = y[:][:];
  for (i = 0; i < 7; i++)
    for (j = 0; j < 4; j++) CHECK(l[j][i] == j * 100 + i);
}

static float first(float (*x)[COLUMNS]) { return x ? x[0][1] : 0; }

int main(void)
{
  int i, j, own = -1;
  allocated();
  variable();
  CHECK(pb == NULL);
  pa = (float (*)[COLUMNS])xmp_malloc(xmp_desc_of(pa), lines, COLUMNS);
  pb = xmp_malloc(xmp_desc_of(pb), lines, COLUMNS);
#pragma xmp loop (i,j) on u[i][j]
  for (i = lines - 1; i >= 0; i--)
    for (j = 0; j < COLUMNS; j++) { pa[i][j] = i * 10 + j; pb[i][j] = pa[i][j]; own = i; }
  if (own >= 0) CHECK(first(pa) == own * 10 + 1 && first(pb) == own * 10 + 1);
  return wrong != 0;
}
