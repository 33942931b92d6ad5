/* nodes: 4 */
/* Directives that come through _Pragma, also from macros, with macros inside. */
#include <xmp.h>
#include "check.h"
#define N 12
#define HALF (N / 2)
#define DIRECTIVE(text) _Pragma(#text)
#define XMP(...) DIRECTIVE(xmp __VA_ARGS__)
#define SHARE(name, template) XMP(align name[i] with template[i])
#define LOOP_T _Pragma("xmp loop on t[i]")
#define EACH(body) LOOP_T for (int i = 0; i < N; i++) { body; }
#define PLUS +
_Pragma("xmp nodes p[4]")
_Pragma("xmp template t[N]")
XMP(distribute t[block] onto p)
double a[N], b[N];
SHARE(a, t)
SHARE(b, t)
_Pragma("xmp shadow a[1]") int behind;
#undef HALF
#define HALF (N / 3)
int main(void)
{
  int i, sum = 0;
  EACH(a[i] = i)
  _Pragma("xmp reflect (a)")
  LOOP_T
  for (i = 1; i < N - 1; i++) b[i] = a[i - 1] + a[i + 1];
  XMP(loop on t[i] reduction(+:sum))
  for (i = 0; i < N; i++) { sum += a[i]; CHECK(b[i] == (i > 0 && i < N - 1 ? 2 * i : 0)); }
  CHECK(sum == N * (N - 1) / 2);
  _Pragma("xmp gmove") b[0:HALF] = a[N - HALF:HALF];
  XMP(task on p[0:HALF - 3]) behind = 1;
  CHECK(behind == (xmpc_node_num() == 0));
#pragma xmp loop on t[i]
  for (i = 0; i < HALF; i++) CHECK(b[i] == N - HALF + i);
  { XMP(barrier) }
  if (sum) { _Pragma("xmp barrier on p") } else _Pragma("omp barrier") ;
  return wrong != 0;
}
