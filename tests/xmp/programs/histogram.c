/* nodes: 4 */
/* A histogram by a reduction of an array, by puts into a member of a structure on image 0, and by a replicated aligned array. */
#include <xmp.h>
#include "check.h"
#define N 500
#define BINS 8
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[block] onto p
int data[N];
#pragma xmp align data[i] with t[i]
struct summary { int counts[4][BINS]; double means[4]; int ready; } all:[*];
struct summary many[3]:[*];

int main(void)
{
  int i, k, me = xmpc_node_num(), n = xmp_num_nodes(), counts[BINS] = { 0 }, want[BINS] = { 0 }, own[BINS] = { 0 }, sum = 0;
  double mean = 0;
  for (i = 0; i < N; i++) want[i * i % 31 % BINS]++;
#pragma xmp loop on t[i] reduction(+:counts)
  for (i = 0; i < N; i++) { data[i] = i * i % 31; counts[data[i] % BINS]++; }
  for (k = 0; k < BINS; k++) CHECK(counts[k] == want[k]);
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) { own[data[i] % BINS]++; mean += data[i]; }
  /* Everybody writes a row and an element of the same structure. */
  all.counts[me][0:BINS]:[0] = own[:];
  all.means[me]:[0] = mean;
  many[1].counts[me][0:4:2]:[n - 1] = 10 * me;
  many[0:3].counts[me][1]:[n - 1] = me + 1;
  many[0:3].ready:[(me + 1) % n] = me;
  xmp_sync_all(NULL);
  if (me == 0) {
    double total = 0, real = 0;
    for (i = 0; i < n; i++) {
      for (k = 0; k < BINS; k++) sum += all.counts[i][k];
      total += all.means[i];
    }
    for (i = 0; i < N; i++) real += i * i % 31;
    CHECK(sum == N && total == real);
    for (k = 0; k < BINS; k++) { for (sum = 0, i = 0; i < n; i++) sum += all.counts[i][k]; CHECK(sum == want[k]); }
  }
  if (me == n - 1)
    for (i = 0; i < n; i++) {
      CHECK(many[1].counts[i][0] == 10 * i && many[1].counts[i][2] == 10 * i && many[1].counts[i][4] == 10 * i);
      CHECK(many[1].counts[i][6] == 10 * i && many[1].counts[i][7] == 0 && many[1].counts[i][3] == 0);
      for (k = 0; k < 3; k++) CHECK(many[k].counts[i][1] == i + 1);
    }
  for (k = 0; k < 3; k++) CHECK(many[k].ready == (me + n - 1) % n);
  xmp_sync_all(NULL);
  /* What is computed, and what comes from another image. */
  many[2].means[0:n]:[0] = many[2].means[0:n] + 1.5 * (me + 1);
  xmp_sync_all(NULL);
  if (me == 0) CHECK(many[2].means[0] == 1.5 || many[2].means[0] > 1.4);
  all.counts[3][0:4]:[me] = all.counts[0][4:4]:[0];
  for (k = 0; k < 4; k++) { int c = all.counts[0][4 + k]:[0]; CHECK(all.counts[3][k] == c); }
  xmp_sync_all(NULL);
  all.ready:[0] += 0;
  xmp_sync_all(NULL);
  if (me == 1 || n == 1) { all.ready:[0]++; all.ready:[0] += 4; }
  xmp_sync_all(NULL);
  CHECK(me != 0 || all.ready == 5);
  return wrong != 0;
}
