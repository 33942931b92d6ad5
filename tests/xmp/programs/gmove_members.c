/* nodes: 4 */
/* gmove of members of one element of a distributed array of structures. */
#include <xmp.h>
#include "check.h"
#define N 12
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
typedef struct { int id; double x[3]; } body;
body a[N], c[N];
int b[N];
#pragma xmp align [i] with t[i] :: a, b, c

int main(void)
{
  int i, w = 0;
  double l[3] = { 0, 0, 0 };
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    a[i].id = 100 + i;
    a[i].x[0] = a[i].x[1] = a[i].x[2] = i;
    c[i] = a[i];
    b[i] = i;
  }
#pragma xmp gmove
  w = a[5].id;
  CHECK(w == 105);
#pragma xmp gmove
  l[0:3] = a[N - 1].x[0:3];
  CHECK(l[0] == N - 1 && l[2] == N - 1);
#pragma xmp gmove
  b[2] = a[N - 1].id;
#pragma xmp gmove
  a[3].id = b[N - 1];
#pragma xmp gmove
  c[0].x[1:2] = a[N - 2].x[0:2];
#pragma xmp gmove
  c[N - 1].id = a[0].id;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) {
    CHECK(b[i] == (i == 2 ? 100 + N - 1 : i));
    CHECK(a[i].id == (i == 3 ? N - 1 : 100 + i) && a[i].x[2] == i);
    CHECK(c[i].id == (i == N - 1 ? 100 : 100 + i) && c[i].x[0] == i && c[i].x[2] == (i == 0 ? N - 2 : i));
  }
#pragma xmp gmove in
  w = a[N - 1].id;
  CHECK(w == 100 + N - 1);
#pragma xmp barrier
#pragma xmp task on p[0]
  {
#pragma xmp gmove out
    a[N - 1].id = w + 1;
  }
#pragma xmp barrier
#pragma xmp gmove
  w = a[N - 1].id;
  CHECK(w == 100 + N);
  return wrong != 0;
}
