/* nodes: 3 */
/* Programs whose main returns nothing end with 0, whatever was computed last. And what `_Generic` chooses from. */
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
#pragma xmp nodes p(*)
#pragma xmp template t(0:8)
#pragma xmp distribute t(block) onto p
double a[9];
#pragma xmp align a[i] with t(i)
int n[9];
#pragma xmp align n[i] with t(i)
#define SIZE(x) _Generic((x), double: 8, int *: sizeof(x), default: 4)
#define ABSOLUTE(x) _Generic((x), double: (x) < 0 ? -(x) : (x), default: abs((int)(x)))

void main(void)
{
  int i;
#pragma xmp loop on t(i)
  for (i = 0; i < 9; i++) {
    a[i] = -0.5 * i;
    n[i] = -i;
    CHECK(SIZE(a[i]) == 8 && SIZE(n[i]) == 4 && SIZE(&n[i]) == sizeof(void *));
    CHECK(ABSOLUTE(a[i]) == 0.5 * i && ABSOLUTE(n[i]) == i);
  }
  if (wrong) exit(1);
  if (xmp_node_num() == 2) return;
  printf("%d nodes\n", xmp_num_nodes());
}
