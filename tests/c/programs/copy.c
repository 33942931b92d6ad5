/* Copies between any two ranks, handles, orders, completion. */
#include "check.h"

#define ALL ((acp_handle_t)ACP_HANDLE_ALL)
#define CONT ((acp_handle_t)ACP_HANDLE_CONT)
#define NONE ((acp_handle_t)ACP_HANDLE_NULL)
#define BYTES 100000

static void check_handles(void)
{
    acp_ga_t a = word_ga(acp_rank(), 0), b = word_ga(acp_rank(), 1);
    acp_handle_t i, last = 0, handle;
    for (i = 1; i <= 20; i++) {
        handle = acp_copy(b, a, i % 3 == 0 ? 0 : 8, i % 2 ? NONE : last);
        CHECK(handle == i);
        last = handle;
    }
    CHECK(acp_copy(ACP_GA_NULL, a, 8, NONE) == NONE);
    handle = acp_copy(ACP_GA_NULL, ACP_GA_NULL, 0, ALL);
    CHECK(handle == 21);
    acp_complete(handle);
    CHECK(acp_inquire(handle) == 0 && acp_inquire(1) == 0 && acp_inquire(ALL) == 0 && acp_inquire(NONE) == 0);
    /* None of these may wait. */
    acp_complete(NONE);
    acp_complete(1);
    acp_complete(1000000);
    acp_complete(ALL);
    acp_complete(CONT);
}

/* Every rank moves data between every pair of ranks. */
static void check_pairs(char *mine, const uint64_t *all)
{
    int from, to, procs = acp_procs(), me = acp_rank();
    size_t i;
    for (from = 0; from < procs; from++) {
        for (to = 0; to < procs; to++) {
            acp_ga_t src = all[from], dst = all[to] + BYTES * (size_t)(1 + me);
            static const size_t sizes[] = {1, 8, 17, 4096, BYTES};
            size_t s;
            for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                char *back = mine + BYTES * (size_t)(1 + procs);
                copy_now(dst, src, sizes[s]);
                memset(back, 0, BYTES);
                copy_now(all[me] + BYTES * (size_t)(1 + procs), dst, sizes[s]);
                for (i = 0; i < sizes[s]; i++)
                    CHECK(back[i] == (char)(i * 31 + (size_t)from));
            }
        }
    }
}

/* Data, then a flag: whoever sees the flag sees the data. No order is asked for, and old programs count on it. */
static void check_arrival(char *mine, const uint64_t *all)
{
    int me = acp_rank(), procs = acp_procs(), next = (me + 1) % procs, before = (me + procs - 1) % procs;
    char *out = mine + BYTES * (size_t)(1 + procs), *in = mine + BYTES;
    acp_ga_t out_ga = all[me] + BYTES * (size_t)(1 + procs);
    uint64_t round;
    for (round = 1; round <= 50; round++) {
        memset(out, (int)round, BYTES);
        *my_word(70) = round;
        CHECK(acp_copy(all[next] + BYTES, out_ga, BYTES, NONE) > 0);
        CHECK(acp_copy(word_ga(next, 71), word_ga(me, 70), 8, NONE) > 0);
        while (*my_word(71) != round)
            acp_inquire(ALL);
        CHECK(in[0] == (char)round && in[BYTES / 2] == (char)round && in[BYTES - 1] == (char)round);
        acp_complete(ALL);
        CHECK(acp_copy(word_ga(before, 72), word_ga(me, 70), 8, NONE) > 0);
        while (*my_word(72) != round)
            acp_inquire(ALL);
        acp_complete(ALL);
    }
    acp_sync();
}

/* A value that goes from rank to rank, each step in an order behind the one before. */
static void check_orders(const uint64_t *all)
{
    int me = acp_rank(), procs = acp_procs(), rank, round;
    for (round = 0; round < 30; round++) {
        acp_handle_t handle = NONE, orders[3];
        acp_ga_t at = word_ga(me, 80);
        *my_word(80) = (uint64_t)(1000 * me + round);
        *my_word(81) = 0;
        for (rank = 0; rank < procs; rank++) {
            acp_ga_t next = all[rank] + BYTES * (size_t)(1 + me);
            orders[0] = handle;
            orders[1] = ALL;
            orders[2] = CONT;
            handle = acp_copy(next, at, 8, orders[round % 3]);
            CHECK(handle > 0);
            at = next;
        }
        handle = acp_copy(word_ga(me, 81), at, 8, round % 2 ? ALL : CONT);
        acp_complete(handle);
        CHECK(acp_inquire(handle) == 0);
        CHECK(*my_word(81) == (uint64_t)(1000 * me + round));
    }
}

int main(int argc, char **argv)
{
    int procs;
    char *mine;
    uint64_t all[64];
    acp_atkey_t key;
    size_t i, size;
    CHECK(acp_init(&argc, &argv) == 0);
    check_handles();
    procs = acp_procs();
    size = BYTES * (size_t)(2 + procs);
    mine = (char *)calloc(size, 1);
    for (i = 0; i < BYTES; i++)
        mine[i] = (char)(i * 31 + (size_t)acp_rank());
    key = acp_register_memory(mine, size, 0);
    exchange(acp_query_ga(key, mine), all);
    check_pairs(mine, all);
    acp_sync();
    check_arrival(mine, all);
    check_orders(all);
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
    free(mine);
    CHECK(acp_finalize() == 0);
    return 0;
}
