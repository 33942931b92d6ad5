/* says: 16: `break` leaves a loop */
#include <xmp.h>
#define N 8
#pragma xmp nodes p[*]
#pragma xmp template t[N][N]
#pragma xmp distribute t[block][*] onto p
int a[N][N];
#pragma xmp align a[i][j] with t[i][j]

int main(void)
{
  int i, j, m = 5, at = -1;
#pragma xmp loop (i, j) on t[i][j] reduction(firstmax:m/at/)
  for (i = 0; i < N; i++) {
    for (j = 0; j < N; j++) if (a[i][j] > m) { m = a[i][j]; at = i; }
    if (m > 7) break;
  }
  return at;
}
