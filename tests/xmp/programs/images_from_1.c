/* nodes: 4 */
/* Before XcalableMP 1.3 the first image was 1: a word in the file. */
#include <xmp.h>
#include "check.h"
#pragma kumiki images_from_1
#define N 6
int x:[*], v[N]:[*], grid:[2][*];
struct { int a, b[3]; } st:[*];
xmp_lock_t lock:[*];

int main(void)
{
  int me = xmp_this_image(), n = xmp_num_images(), next = me % n + 1, i, own[N], read;
  x = me;
  st.a = 10 * me;
  grid = 100 * me;
  for (i = 0; i < N; i++) v[i] = me * 10 + i;
  xmp_sync_all(NULL);
  CHECK(x:[next] == next && x:[1] == 1 && x:[n] == n);
  CHECK(st.a:[next] == 10 * next && (st:[next]).a == 10 * next);
  CHECK(grid:[2][1] == 200 && grid:[1][2] == 300);
  own[0:N] = v[0:N]:[next];
  for (i = 0; i < N; i++) CHECK(own[i] == next * 10 + i);
  xmp_sync_all(NULL);
  v[0:3]:[next] = own[3:3];
  st.b[1]:[next] = me;
  xmp_sync_all(NULL);
  for (i = 0; i < 3; i++) CHECK(v[i] == me * 10 + 3 + i);
  CHECK(st.b[1] == (me + n - 2) % n + 1);
  xmp_sync_all(NULL);
  for (i = 0; i < 10; i++) {
#pragma xmp lock(lock:[n])
    x:[n] = x:[n] + 1;
    xmp_sync_memory(NULL);
#pragma xmp unlock(lock:[n])
  }
  xmp_sync_all(NULL);
  xmp_atomic_ref(&read, x:[n]);
  CHECK(read == n + 10 * n);
  xmp_sync_all(NULL);
  xmp_atomic_define(x:[next], me);
  xmp_sync_all(NULL);
  CHECK(x:[next] == me);
  return wrong;
}
