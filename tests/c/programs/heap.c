/* acp_malloc and acp_free: on every rank, from every rank, at once. */
#include "check.h"

#define COUNT 50

int main(int argc, char **argv)
{
    int rank, procs, me, i, round;
    acp_ga_t blocks[COUNT];
    CHECK(acp_init(&argc, &argv) == 0);
    procs = acp_procs();
    me = acp_rank();
    for (round = 0; round < 4; round++) {
        for (rank = 0; rank < procs; rank++) {
            for (i = 0; i < COUNT; i++) {
                size_t size = (size_t)(8 + 24 * ((i * 7 + round) % 40));
                blocks[i] = acp_malloc(size, rank);
                CHECK(blocks[i] != ACP_GA_NULL && blocks[i] % 8 == 0);
                CHECK(acp_query_rank(blocks[i]) == rank && acp_query_rank(blocks[i] + size - 1) == rank);
                CHECK((acp_query_address(blocks[i]) != NULL) == (rank == me));
                *my_word(40) = (uint64_t)(me * 1000000 + round * 1000 + i);
                copy_now(blocks[i], word_ga(me, 40), 8);
                copy_now(blocks[i] + size - 4, word_ga(me, 40), 4);
            }
            for (i = 0; i < COUNT; i++) {
                copy_now(word_ga(me, 41), blocks[i], 4);
                CHECK((uint32_t)*my_word(41) == (uint32_t)(me * 1000000 + round * 1000 + i));
            }
            for (i = 0; i < COUNT; i++)
                acp_free(blocks[(i * 13) % COUNT]);
        }
    }
    /* One rank takes, another one gives back. */
    *my_word(50) = acp_malloc(1000, (me + 1) % procs);
    acp_sync();
    copy_now(word_ga(me, 51), word_ga((me + procs - 1) % procs, 50), 8);
    acp_sync();
    acp_free(*my_word(51));
    CHECK(acp_malloc(8, -1) == ACP_GA_NULL && acp_malloc(8, procs) == ACP_GA_NULL);
    CHECK(acp_malloc((size_t)1 << 60, 0) == ACP_GA_NULL);
    acp_free(ACP_GA_NULL);
    acp_sync();
    CHECK(acp_finalize() == 0);
    return 0;
}
