/* Every atomic, on starter memory, on registered memory, and contended by all ranks. */
#include "check.h"

#define NONE ((acp_handle_t)ACP_HANDLE_NULL)
#define ROUNDS 200

static uint64_t shared[8];

static void check_each(acp_ga_t target, acp_ga_t old)
{
    volatile uint64_t *found = my_word(40);
    acp_ga_t back = word_ga(acp_rank(), 41);
    volatile uint64_t *now = my_word(41);
    *my_word(42) = 0x00000001000000ffULL;
    copy_now(target, word_ga(acp_rank(), 42), 8);
#define STEP(call, was, is)                           \
    do {                                              \
        *found = ~(uint64_t)0;                        \
        CHECK((call) > 0);                            \
        acp_complete((acp_handle_t)ACP_HANDLE_ALL);   \
        CHECK(*found == (uint64_t)(was));             \
        copy_now(back, target, 8);                    \
        CHECK(*now == (uint64_t)(is));                \
    } while (0)
    STEP(acp_add8(old, target, 1, NONE), 0x1000000ffULL, 0x100000100ULL);
    STEP(acp_xor8(old, target, 0x300000000ULL, NONE), 0x100000100ULL, 0x200000100ULL);
    STEP(acp_or8(old, target, 0x0fULL, NONE), 0x200000100ULL, 0x20000010fULL);
    STEP(acp_and8(old, target, 0x1ffULL, NONE), 0x20000010fULL, 0x10fULL);
    STEP(acp_swap8(old, target, 7, NONE), 0x10fULL, 7);
    STEP(acp_cas8(old, target, 8, 9, NONE), 7, 7);
    STEP(acp_cas8(old, target, 7, 9, NONE), 7, 9);
    /* Of four bytes: the others of the word stay, and four bytes of the old value are written. */
    STEP(acp_add4(old, target, 0xffffffffU, NONE), 0xffffffff00000009ULL, 8);
    STEP(acp_xor4(old, target, 0xfU, NONE), 0xffffffff00000008ULL, 7);
    STEP(acp_or4(old, target, 0x10U, NONE), 0xffffffff00000007ULL, 0x17);
    STEP(acp_and4(old, target, 0x11U, NONE), 0xffffffff00000017ULL, 0x11);
    STEP(acp_swap4(old, target, 5, NONE), 0xffffffff00000011ULL, 5);
    STEP(acp_cas4(old, target, 6, 7, NONE), 0xffffffff00000005ULL, 5);
    STEP(acp_cas4(old, target, 5, 7, NONE), 0xffffffff00000005ULL, 7);
}

int main(int argc, char **argv)
{
    int rank, procs, me, i;
    uint64_t all[64];
    acp_atkey_t key;
    CHECK(acp_init(&argc, &argv) == 0);
    procs = acp_procs();
    me = acp_rank();
    key = acp_register_memory(shared, sizeof shared, 0);
    exchange(acp_query_ga(key, shared), all);
    for (rank = 0; rank < procs; rank++) {
        /* Each rank has a word of its own at each rank. */
        check_each(word_ga(rank, 44 + me), word_ga(me, 40));
        check_each(all[rank] + 8 * (size_t)me, word_ga(me, 40));
    }
    for (rank = 0; rank < procs; rank++)
        CHECK(acp_add8(word_ga(me, 40), word_ga(rank, 44) + 4, 1, NONE) == NONE);
    CHECK(acp_add8(word_ga(me, 40), ACP_GA_NULL, 1, NONE) == NONE);
    acp_sync();
    /* All ranks, the same words: every increment counts, on a word that its owner changes, too. */
    for (i = 0; i < ROUNDS; i++) {
        CHECK(acp_add8(word_ga(me, 40), all[0] + 56, 1, NONE) > 0);
        CHECK(acp_add4(word_ga(me, 41), word_ga(procs - 1, 60), 1, NONE) > 0);
    }
    acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    acp_sync();
    copy_now(word_ga(me, 42), all[0] + 56, 8);
    CHECK(*my_word(42) == (uint64_t)(ROUNDS * procs));
    copy_now(word_ga(me, 42), word_ga(procs - 1, 60), 8);
    CHECK(*my_word(42) == (uint64_t)(ROUNDS * procs));
    acp_sync();
    /* A lock of compare-and-swap around a word that is not atomic. */
    for (i = 0; i < 20; i++) {
        do {
            CHECK(acp_cas8(word_ga(me, 40), word_ga(0, 61), 0, (uint64_t)me + 1, NONE) > 0);
            acp_complete((acp_handle_t)ACP_HANDLE_ALL);
        } while (*my_word(40) != 0);
        copy_now(word_ga(me, 41), word_ga(0, 62), 8);
        *my_word(41) += 1;
        copy_now(word_ga(0, 62), word_ga(me, 41), 8);
        CHECK(acp_swap8(word_ga(me, 40), word_ga(0, 61), 0, NONE) > 0);
        acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    }
    acp_sync();
    copy_now(word_ga(me, 42), word_ga(0, 62), 8);
    CHECK(*my_word(42) == (uint64_t)(20 * procs));
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
    CHECK(acp_finalize() == 0);
    return 0;
}
