/* says: 8: a section in a member of a coarray can be read from another image, not written */
#include <xmp.h>
struct pair { int n, v[6]; } s:[*];

int main(void)
{
  int l[2] = { 1, 2 };
  s.v[0:2]:[1] = l[0:2];
  return 0;
}
