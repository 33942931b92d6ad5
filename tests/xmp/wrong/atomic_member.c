/* says: 7: this needs an element of a coarray, not a member of one */
#include <xmp.h>
struct pair { int n, v[6]; } s:[*];

int main(void)
{
  xmp_atomic_define(s.n:[1], 5);
  return 0;
}
