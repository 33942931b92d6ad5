/* nodes: 4 */
/* flags: -DPROCS=4 -O1 */
/* Macros inside directives, continued lines, directives in an included file, comments in odd places. */
#define _GNU_SOURCE
#include <xmp.h>
#include <string.h>
#include "macros.h"
#include "check.h"
#ifndef _XCALABLEMP
#error _XCALABLEMP is not defined
#endif
#define ON_T(i) t(i)
#define REDUCE reduction(+:sum)
int data[SIZE];
#pragma xmp align data[i] \
  with \
  t(i)
/* before */ #pragma xmp shadow data[WIDTH] // behind
int main(void)
{
  int i, sum = 0;
  char s[10];
#pragma xmp loop on ON_T(i) /* a comment \
  over lines */
  for (i = LOWER; i <= UPPER(SIZE); i++) data[i] = i; /* #pragma xmp barrier */
  const char *text = "#pragma xmp barrier";
#pragma xmp reflect (data) width(WIDTH)
#pragma xmp loop on t(i) REDUCE
  for (i = LOWER + 1; i <= UPPER(SIZE) - 1; i++) {
    CHECK(data[i - WIDTH] == i - 1 && data[i + WIDTH] == i + 1);
    sum += data[i];
  }
  CHECK(sum == 8 * 9 / 2 && text[0] == '#');
  CHECK(strcmp(strcpy(s, "abc"), "abc") == 0);
  return wrong != 0;
}
