/* RandomAccess in the local view: updates go to the node that has the word, in buckets, by coarrays and events. */
#include <stdio.h>
#include <stdlib.h>
#include <xmp.h>
#define LOG 12
#define WORDS (1L << LOG)
#define CHUNK 256
#define NODES_MAX 16
typedef unsigned long u64;
static u64 table[WORDS]:[*];
static u64 inbox[NODES_MAX][CHUNK]:[*];
static int filled[NODES_MAX]:[*];
#pragma xmp nodes p[*]

static u64 next(u64 x) { return (x << 1) ^ ((long)x < 0 ? 7UL : 0UL); }

int main(void)
{
  int me = xmpc_this_image(), n = xmp_num_images(), to, from, i, round, rounds = 8, pass;
  long wrong = 0;
  u64 (*out)[CHUNK] = malloc(sizeof(u64) * CHUNK * NODES_MAX);
  int count[NODES_MAX];
  if (n > NODES_MAX || (n & (n - 1))) {
    if (me == 0) fprintf(stderr, "the number of nodes must be 1, 2, 4, 8 or 16\n");
    return 2;
  }
  for (i = 0; i < WORDS; i++) table[i] = me * WORDS + i;
  xmp_sync_all(NULL);
  /* The same updates twice: the table is then what it was. */
  for (pass = 0; pass < 2; pass++) {
    u64 x = 0x123456789abcdefUL * (me + 1);
    for (round = 0; round < rounds; round++) {
      for (to = 0; to < n; to++) count[to] = 0;
      for (i = 0; i < CHUNK; i++) {
        x = next(x);
        to = (int)((x >> LOG) & (n - 1));
        out[to][count[to]++] = x;
      }
      for (to = 0; to < n; to++) {
        if (count[to]) inbox[me][0:count[to]]:[to] = out[to][0:count[to]];
        filled[me]:[to] = count[to];
      }
      xmp_sync_all(NULL);
      for (from = 0; from < n; from++)
        for (i = 0; i < filled[from]; i++) table[inbox[from][i] & (WORDS - 1)] ^= inbox[from][i];
      xmp_sync_all(NULL);
    }
  }
  for (i = 0; i < WORDS; i++) wrong += table[i] != (u64)(me * WORDS + i);
#pragma xmp reduction(+:wrong)
  if (me == 0) printf("%ld updates, %ld wrong\n", 2L * rounds * CHUNK * n, wrong);
  free(out);
  return wrong != 0;
}
