/* Registration: heap, static and stack memory, overlapping, repeated, many at a time; addresses and what they say. */
#include "check.h"

#define MANY 300

static char fixed[256];

static void check_block(char *block, size_t size)
{
    int rank, procs = acp_procs(), me = acp_rank();
    uint64_t all[64];
    acp_atkey_t key;
    acp_ga_t ga;
    size_t i;
    for (i = 0; i < size; i++)
        block[i] = (char)(i * 7 + (size_t)me);
    key = acp_register_memory(block, size, 0);
    CHECK(key != ACP_ATKEY_NULL);
    ga = acp_query_ga(key, block);
    CHECK(ga != ACP_GA_NULL);
    for (i = 0; i < size; i++)
        CHECK(acp_query_ga(key, block + i) == ga + i);
    CHECK(acp_query_ga(key, block + size) == ACP_GA_NULL);
    CHECK(acp_query_ga(key, block - 1) == ACP_GA_NULL);
    CHECK(acp_query_address(ga) == block && acp_query_address(ga + size - 1) == block + size - 1);
    CHECK(acp_query_rank(ga) == me && acp_query_rank(ga + size - 1) == me);
    CHECK(acp_query_color(ga) == 0);
    exchange(ga, all);
    for (rank = 0; rank < procs; rank++) {
        char copy[300];
        acp_atkey_t to = acp_register_memory(copy, sizeof copy, 0);
        CHECK(acp_query_rank(all[rank]) == rank);
        CHECK((acp_query_address(all[rank]) == NULL) == (rank != me));
        memset(copy, 0, sizeof copy);
        copy_now(acp_query_ga(to, copy + 3), all[rank] + 1, size - 1);
        for (i = 1; i < size; i++)
            CHECK(copy[i + 2] == (char)(i * 7 + (size_t)rank));
        CHECK(copy[2] == 0 && copy[size + 2] == 0);
        CHECK(acp_unregister_memory(to) == 0);
    }
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
    acp_sync();
}

int main(int argc, char **argv)
{
    static char overlapping[64];
    char stack[100];
    char *heap;
    acp_atkey_t keys[MANY];
    int i;
    CHECK(acp_init(&argc, &argv) == 0);
    heap = (char *)malloc(200);
    check_block(heap + 1, 199);
    check_block(fixed, sizeof fixed);
    check_block(stack, sizeof stack);
    /* Many at a time, some the same, some overlapping. */
    for (i = 0; i < MANY; i++) {
        keys[i] = acp_register_memory(overlapping + i % 32, 32, 0);
        CHECK(keys[i] != ACP_ATKEY_NULL);
    }
    for (i = 0; i < MANY; i++) {
        acp_ga_t ga = acp_query_ga(keys[i], overlapping + 31);
        overlapping[31] = (char)i;
        CHECK(acp_query_address(ga) == overlapping + 31);
        copy_now(word_ga(acp_rank(), 0), ga, 1);
        CHECK(*(char *)acp_query_address(word_ga(acp_rank(), 0)) == (char)i);
    }
    for (i = 0; i < MANY; i++)
        CHECK(acp_unregister_memory(keys[i]) == 0);
    CHECK(acp_unregister_memory(keys[0]) != 0);
    CHECK(acp_query_ga(keys[0], overlapping) == ACP_GA_NULL);
    CHECK(acp_register_memory(NULL, 8, 0) == ACP_ATKEY_NULL);
    CHECK(acp_query_rank(ACP_GA_NULL) == -1 && acp_query_color(ACP_GA_NULL) == -1);
    CHECK(acp_query_address(ACP_GA_NULL) == NULL);
    CHECK(acp_query_starter_ga(-1) == ACP_GA_NULL && acp_query_starter_ga(acp_procs()) == ACP_GA_NULL);
    CHECK(acp_query_color(acp_query_starter_ga(acp_procs() - 1)) == 0);
    free(heap);
    CHECK(acp_finalize() == 0);
    return 0;
}
