/* nodes: 4 */
/* Halos with corners, of different widths, periodic; cells outside of the array stay. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p[2][2]
#pragma xmp template t[N][N]
#pragma xmp distribute t[block][block] onto p
int a[N][N];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp shadow a[1][2:1]
static int at(int i, int j) { return 100 * ((i + N) % N) + (j + N) % N; }
int main(void)
{
  int i, j;
#pragma xmp loop (i,j) on t[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++)
      a[i][j] = at(i, j);
#pragma xmp reflect (a)
#pragma xmp loop (i,j) on t[i][j]
  for (i = 1; i < N - 1; i++)
    for (j = 2; j < N - 1; j++) {
      CHECK(a[i - 1][j] == at(i - 1, j) && a[i + 1][j] == at(i + 1, j));
      CHECK(a[i][j - 1] == at(i, j - 1) && a[i][j - 2] == at(i, j - 2) && a[i][j + 1] == at(i, j + 1));
      CHECK(a[i - 1][j - 2] == at(i - 1, j - 2) && a[i + 1][j + 1] == at(i + 1, j + 1));
    }
#pragma xmp reflect (a) width(/periodic/1:1, /periodic/2:1)
#pragma xmp loop (i,j) on t[i][j]
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      CHECK(a[i - 1][j] == at(i - 1, j) && a[i + 1][j] == at(i + 1, j));
      CHECK(a[i][j - 2] == at(i, j - 2) && a[i][j + 1] == at(i, j + 1));
      CHECK(a[i - 1][j - 1] == at(i - 1, j - 1));
    }
  return wrong != 0;
}
