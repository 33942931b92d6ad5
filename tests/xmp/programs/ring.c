/* nodes: 4 */
/* A ring of images: puts to the right, with sync_images, with post and wait, and with a flag that is atomic; and the sum that went around. */
#include <stdlib.h>
#include <xmp.h>
#include "check.h"
#define LENGTH 6
#pragma xmp nodes p[*]
double inbox[2][LENGTH]:[*], total:[*];
int turn:[*] = 0, hits[4]:[*];
xmp_lock_t gate:[*];

int main(void)
{
  int me = xmpc_this_image(), n = xmp_num_images(), right = (me + 1) % n, left = (me + n - 1) % n, status = 5, i, k, got;
  int pair[2];
  double own[LENGTH];
  pair[0] = left; pair[1] = right;
  for (i = 0; i < LENGTH; i++) own[i] = me * 100 + i;
  /* By turns: the slots are used alternately. */
  for (k = 0; k < n; k++) {
    inbox[k % 2][:]:[right] = own[:];
    if (n > 2) xmp_sync_images(2, pair, &status);
    else if (n == 2) xmp_sync_image(right, &status);
    else status = 0;
    CHECK(status == 0);
    own[:] = inbox[k % 2][:];
    CHECK(own[1] == (me + n - k - 1) % n * 100 + 1);
  }
  CHECK(own[LENGTH - 1] == me * 100 + LENGTH - 1);
  xmp_sync_all(&status);
  /* A value that every image adds to, in order, by post and wait. */
  if (me == 0) total = 1;
  for (k = 0; k < 3; k++) {
    if (me > 0 || k > 0) {
#pragma xmp wait (p[left], 7)
    }
    total:[right] = total + me;
#pragma xmp post (p[right], 7)
  }
  if (me == 0) {
#pragma xmp wait (p[left])
    CHECK(total == 1 + 3 * n * (n - 1) / 2);
  }
#pragma xmp barrier
  /* Everybody counts at the same place. */
  for (k = 0; k < 5; k++) {
#pragma xmp lock (gate:[0])
    got = hits[2]:[0];
    hits[2]:[0] = got + 1;
#pragma xmp unlock (gate:[0])
  }
  xmp_sync_all(NULL);
  got = hits[2]:[0];
  CHECK(got == 5 * n);
  if (me == n - 1) xmp_atomic_define(turn:[0], 42);
  if (me == 0) {
    do xmp_atomic_ref(&got, turn:[0]); while (got != 42);
  }
  xmp_sync_images_all(&status);
  CHECK(status == 0);
  got = turn:[0];
  CHECK(got == 42);
  return wrong != 0;
}
