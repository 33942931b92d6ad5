/* nodes: 4 */
/* Much of C around distributed arrays: what is not about them must stay as it is. */
#define _XOPEN_SOURCE 600
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xmp.h>
#include "check.h"
#define N 32
#define SWAP(x, y) do { __typeof__(x) swap_ = (x); (x) = (y); (y) = swap_; } while (0)
#define AT(i) a[(i)]
typedef struct node { struct node *next; union { int i; float f; }; unsigned flag : 3, rest : 5; } node_t;
typedef int (*op_t)(int, int);
enum color { RED, GREEN = 5, BLUE };
_Static_assert(sizeof(int) == 4, "int");
#pragma xmp nodes p[4]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
static int a[N], b[N] __attribute__((unused));
static double complex z[N];
static node_t list[N];
static uint8_t bytes[N];
static long long big[N];
static const char *names[N];
#pragma xmp align [i] with t[i] :: a, b, z, list, bytes, big, names
static int add(int x, int y) { return x + y; }
static int times(int x, int y) { return x * y; }
static int vsum(int n, ...)
{
  va_list ap;
  int s = 0;
  va_start(ap, n);
  while (n--) s += va_arg(ap, int);
  va_end(ap);
  return s;
}
static int vla(int n, int m[n][n]) { return m[n - 1][n - 1]; }
int main(int argc, char **argv)
{
  int i, j, k = 0, sum = 0, *q, local[3][3] = { [1] = { 1, 2, 3 }, [2][2] = 9 };
  op_t ops[] = { add, times };
  struct { int x, y; } point = { .y = 2, .x = 1 };
  enum color c = GREEN;
  double complex zsum = 0;
  char text[32];
  (void)argv;
#pragma xmp loop on t[i]
  for (i = 0;
       i < N;
       i++) {
    switch (i % 4) {
    case 0: a[i] = 1; break;
    case 1:
    case 2: { int tmp = i; a[i] = tmp > 1 ? tmp : -tmp; } break;
    default: AT(i) = ops[i & 1](i, 2);
    }
    b[i] = (int)(a[i] * 1.5), z[i] = i + 2 * I;
    list[i] = (node_t){ .next = NULL, .i = i, .flag = i & 7 };
    list[i].rest = list[i].flag << 1;
    bytes[i] = (uint8_t)(i * 10);
    big[i] = 1LL << i;
    names[i] = "x" "y" "z" + i % 3;
    do { j = i; while (j > 10) j -= 10; } while (0);
    if (j < 0) continue; else sum += sizeof(a[i]) == sizeof (int) && sizeof *q == 4 ? 1 : 0;
    q = &a[i], *q += 0;
    SWAP(a[i], b[i]);
    SWAP(a[i], b[i]);
    a[i]++; --a[i]; a[i] <<= 1; a[i] >>= 1; a[i] ^= 0; a[i] |= !a[i] & 0;
    assert(a[i] == a[i] && "always");
    k = a[i], k = ({ int t_ = a[i]; t_ + 0; });
    memcpy(text, &big[i], sizeof big[i]);
    CHECK(*(long long *)text == big[i]);
    CHECK(names[i][0] == "xyz"[i % 3]);
  }
  CHECK(sum == 8 && c == GREEN && point.x + point.y == 3 && argc == 1);
  sum = 0;
#pragma xmp loop on t[i] reduction(+:sum) reduction(+:zsum)
  for (i = 0; i < N; i++) {
    int want = i % 4 == 0 ? 1 : i % 4 == 1 ? (i > 1 ? i : -i) : i % 4 == 2 ? i : i * 2;
    sum += a[i] == want && b[i] == (int)(want * 1.5);
    zsum += z[i];
    CHECK(list[i].i == i && list[i].rest == ((i & 7) << 1 & 31) && (&list[i])->flag == (i & 7));
    CHECK(bytes[i] == (uint8_t)(10 * i) && big[i] == 1LL << i);
  }
  CHECK(sum == N && creal(zsum) == 496 && cimag(zsum) == 64);
  CHECK(vsum(3, 1, 2, 3) == 6 && vla(3, local) == 9);
  for (i = 0; i < 2; i++) {
    goto next;
next:
    sum += i;
  }
  CHECK(sum == N + 1);
#pragma xmp task on t[17]
  {
    CHECK(a[17] == 17);
    snprintf(text, sizeof text, "%d %s", a[17], names[17]);
    CHECK(strcmp(text, "17 z") == 0);
    k = a[17] > 3 ? a[16] : 0;
    CHECK(k == 1);
  }
  if (k < 0) return abs(k);
  return wrong != 0;
}
