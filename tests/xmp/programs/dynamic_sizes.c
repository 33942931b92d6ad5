/* nodes: 4 */
/* Sizes that the program finds: templates that are fixed in a function, also in one that calls itself; memory that is made twice, kept, and given back. */
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p[*]
#pragma xmp template whole[:][:]
#pragma xmp distribute whole[block][*] onto p
static const int LENGTH = 6;
float (*rows)[LENGTH];
double (*table)[LENGTH + 2];
static int (*cube)[LENGTH][2];
#pragma xmp align rows[i][j] with whole[i][j]
#pragma xmp shadow rows[1][0]
#pragma xmp align table[i][*] with whole[i][*]
#pragma xmp align cube[i][j][*] with whole[i][j]

/* A sum over n, n/2, n/4 ..: every call has its own template. */
static long halves(int n)
{
#pragma xmp template t[:]
#pragma xmp distribute t[cyclic(2)] onto p
  long *a, s = 0, inner = 0;
  int i;
#pragma xmp align a[i] with t[i]
#pragma xmp template_fix[cyclic(2)] t[n]
  a = xmp_malloc(xmp_desc_of(a), n);
#pragma xmp loop on t[i]
  for (i = 0; i < n; i++) a[i] = i + 1;
  if (n > 1) inner = halves(n / 2);
#pragma xmp loop on t[i] reduction(+:s)
  for (i = 0; i < n; i++) s += a[i];
  xmp_free(xmp_desc_of(a));
  return s + inner;
}

/* The same bounds, and blocks that differ from call to call. */
static int uneven(int depth)
{
#pragma xmp template t[12]
#pragma xmp distribute t[gblock(*)] onto p
  int *a, map[16], s = 0, inner = 0, i, nodes = xmp_num_nodes();
#pragma xmp align a[i] with t[i]
  for (i = 0; i < nodes; i++) map[i] = 0;
  map[depth % nodes] = 12 - depth;
  map[(depth + 1) % nodes] += depth;
#pragma xmp template_fix[gblock(map)] t
  a = (int *)xmp_malloc(xmp_desc_of(a), 12);
#pragma xmp loop on t[i]
  for (i = 0; i < 12; i++) a[i] = depth * 100 + i;
  if (depth < 3) inner = uneven(depth + 1);
#pragma xmp loop on t[i] reduction(+:s)
  for (i = 0; i < 12; i++) { CHECK(a[i] == depth * 100 + i); s += a[i]; }
  return s + inner;
}

int main(void)
{
  int n = 11, i, j, round;
  float (*before)[LENGTH], s = 0;
#pragma xmp template_fix[block][*] whole[n][LENGTH]
  rows = (float (*)[LENGTH])xmp_malloc(xmp_desc_of(rows), n, LENGTH);
  table = xmp_malloc(xmp_desc_of(table), n, LENGTH + 2);
  cube = xmp_malloc(xmp_desc_of(cube), n, LENGTH, 2);
#pragma xmp loop on whole[i][*]
  for (i = 0; i < n; i++)
    for (j = 0; j < LENGTH; j++) { rows[i][j] = i * 10 + j; table[i][j + 2] = -rows[i][j]; cube[i][j][1] = i - j; }
#pragma xmp reflect (rows)
#pragma xmp loop on whole[i][*] reduction(+:s)
  for (i = 1; i < n - 1; i++)
    for (j = 0; j < LENGTH; j++) { CHECK(rows[i - 1][j] + rows[i + 1][j] == 2 * rows[i][j]); s += table[i][j + 2] + cube[i][j][1]; }
  {
    float want = 0;
    for (i = 1; i < n - 1; i++) for (j = 0; j < LENGTH; j++) want += -(i * 10 + j) + i - j;
    CHECK(s == want);
  }
  /* A second one: the first is still there, with what is in it. */
  before = rows;
  rows = (float (*)[LENGTH])xmp_malloc(xmp_desc_of(rows), n, LENGTH);
  CHECK(rows != before);
#pragma xmp loop on whole[i][*]
  for (i = 0; i < n; i++) for (j = 0; j < LENGTH; j++) rows[i][j] = 0;
  {
    int first = -1, mine = 0;
    float (*kept)[LENGTH] = before;
#pragma xmp loop on whole[i][*]
    for (i = 0; i < n; i++) { if (first < 0) first = i; mine++; }
    /* A row of the shadow lies before the own ones. */
    for (i = 0; i < mine; i++) CHECK(kept[i + 1][3] == (first + i) * 10 + 3);
  }
  xmp_free(xmp_desc_of(rows));
  for (round = 0; round < 3; round++) CHECK(halves(20) == 210 + 55 + 15 + 3 + 1);
  CHECK(uneven(0) == 4 * 66 + 12 * 600);
  CHECK(uneven(0) == 4 * 66 + 12 * 600);
  return wrong != 0;
}
