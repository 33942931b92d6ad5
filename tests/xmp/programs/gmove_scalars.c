/* nodes: 4 */
/* gmove of single elements and scalars, converted as C does it. */
#include <xmp.h>
#include "check.h"
#define N 10
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp template c[N]
#pragma xmp distribute t[block] onto p
#pragma xmp distribute c[cyclic] onto p
double a[N], m[N][3];
int b[N];
unsigned char s[N];
struct pair { int one; double two; } pairs[N], other[N];
enum colour { RED, GREEN, BLUE } colours[N];
#pragma xmp align a[i] with t[i]
#pragma xmp align m[i][*] with t[i]
#pragma xmp align b[i] with c[i]
#pragma xmp align s[i] with t[i]
#pragma xmp align pairs[i] with t[i]
#pragma xmp align other[i] with c[i]
#pragma xmp align colours[i] with c[i]
float filescalar;
int main(void)
{
  int i, x = 3, k = 4, me = xmpc_node_num();
  float f = 1.5f;
  short h;
  double d, local[5] = {0};
  long double ld = 0;
  struct pair one, *to = &one;
  int *where = &x;
  enum colour colour = RED;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) a[i] = i + 0.75, s[i] = i, pairs[i].one = i, pairs[i].two = 2 * i;
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) b[i] = 10 * i, colours[i] = i % 3;
#pragma xmp gmove
  x = a[7];
  CHECK(x == 7);
#pragma xmp gmove
  f = b[k + 1];
  CHECK(f == 50);
#pragma xmp gmove
  h = a[N - 1];
  CHECK(h == 9);
#pragma xmp gmove
  d = s[5];
  CHECK(d == 5);
#pragma xmp gmove
  ld = a[2];
  CHECK(ld == 2.75L);
#pragma xmp gmove
  local[3] = b[6];
  CHECK(local[3] == 60 && local[2] == 0);
#pragma xmp gmove
  *where = a[8];
  CHECK(x == 8);
#pragma xmp gmove
  to->two = b[3];
  CHECK(one.two == 30);
#pragma xmp gmove
  one = pairs[5];
  CHECK(one.one == 5 && one.two == 10);
#pragma xmp gmove
  filescalar = a[1];
  CHECK(filescalar == 1.75f);
#pragma xmp gmove
  colour = colours[4];
  CHECK(colour == GREEN);
#pragma xmp gmove
  a[3] = x;
#pragma xmp gmove
  a[4] = f;
#pragma xmp gmove
  b[2] = 3.9;
#pragma xmp gmove
  b[3] = local[3] + 1;
#pragma xmp gmove
  a[5] = b[9];
#pragma xmp gmove
  s[6] = a[6];
#pragma xmp gmove
  b[0] = m[2][1];
#pragma xmp gmove
  other[8] = pairs[9];
#pragma xmp gmove
  colours[1] = BLUE;
#pragma xmp gmove
  m[1][:] = b[7];
#pragma xmp gmove
  m[4:2][2] = -1;
#pragma xmp gmove
  m[:][0] = x;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    CHECK(a[i] == (i == 3 ? 8 : i == 4 ? 50 : i == 5 ? 90 : i + 0.75));
    CHECK(s[i] == i);
    CHECK(m[i][0] == 8 && m[i][1] == (i == 1 ? 70 : 0) && m[i][2] == (i == 1 ? 70 : i == 4 || i == 5 ? -1 : 0));
  }
#pragma xmp loop on c[i]
  for (i = 0; i < N; i++) {
    CHECK(b[i] == (i == 2 ? 3 : i == 3 ? 61 : 10 * i));
    CHECK(colours[i] == (i == 1 ? BLUE : i % 3));
    if (i == 8) CHECK(other[i].one == 9 && other[i].two == 18);
  }
#pragma xmp gmove
  a[:] = f;
#pragma xmp gmove
  b[1:4:2] = a[0];
  return wrong != 0;
}
