/* The second unit of model.c. */
#include "model.h"

void step(double from[NX][NY], double to[NX][NY])
{
#pragma xmp align from[i][j] with plane[i][j]
#pragma xmp align to[i][j] with plane[i][j]
#pragma xmp shadow from[1][1]
#pragma xmp shadow to[1][1]
  int i, j;
#pragma xmp reflect (from) width(/periodic/1, /periodic/1)
#pragma xmp loop (i, j) on plane[i][j]
  for (i = 0; i < NX; i++)
    for (j = 0; j < NY; j++)
      to[i][j] = from[i][j] + how.rate * (from[i + 1][j] + from[i - 1][j] + from[i][j + 1] + from[i][j - 1] - 4 * from[i][j]);
  calls++;
}

double total(x)
double x[NX][NY];
#pragma xmp align x[i][j] with plane[i][j]
#pragma xmp shadow x[1][1]
{
  double sum = 0;
  int i, j;
#pragma xmp loop on plane[i][j] reduction(+:sum)
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) sum += x[i][j];
  return sum;
}
