/* nodes: 4 */
/* The same in the round notation, two dimensions: t(j,i) has its fastest dimension first. */
#include <xmp.h>
#include "check.h"
#define N 9
#define M 7
int a[N][M];
#pragma xmp nodes p(2,2)
#pragma xmp template t(0:M-1,0:N-1)
#pragma xmp distribute t(block,block) onto p
#pragma xmp align a[i][j] with t(j,i)

int main(int argc, char **argv)
{
  int i, j, sum = 0, mine = 0;
  CHECK(argc == 1 && argv[0] != NULL);
#pragma xmp loop (j,i) on t(j,i)
  for (i = 0; i < N; i++)
    for (j = 0; j < M; j++) {
      a[i][j] = 100 * i + j;
      mine++;
    }
#pragma xmp loop (i,j) on t(j,i) reduction(+:sum)
  for (i = 0; i < N; i++) {
    for (j = 0; j < M; j++) {
      CHECK(a[i][j] == 100 * i + j);
      sum += a[i][j];
    }
  }
  CHECK(sum == 100 * M * (N * (N - 1) / 2) + N * (M * (M - 1) / 2));
  /* p(1,1) has 4 columns of 5 rows, p(2,1) 3 columns of 5 rows. */
  if (xmp_node_num() == 1) CHECK(mine == 20);
  if (xmp_node_num() == 2) CHECK(mine == 15);
  if (xmp_node_num() == 4) CHECK(mine == 12);
  return wrong != 0;
}
