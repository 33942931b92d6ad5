/* kumiki.h: every function, with checked results; and errors that say what was wrong. */
#include "kumiki_check.h"

static kumiki_address words(kumiki_world *world, int64_t rank)
{
    kumiki_address address = KUMIKI_NULL;
    OK(kumiki_starter(world, (uint32_t)rank, &address));
    return address;
}

static void check_atomics(kumiki_world *world, kumiki_address mine, kumiki_address word)
{
    uint64_t old = 0, now = 0;
    uint32_t half = 0;
    kumiki_handle handle = 0;
    int complete = 0;
    OK(kumiki_put(world, word, &now, 8));
    OK(kumiki_fetch_u64(world, KUMIKI_ADD, word, 5, 0, &old));
    CHECK(old == 0);
    OK(kumiki_fetch_u64(world, KUMIKI_COMPARE_SWAP, word, 5, 6, &old));
    OK(kumiki_fetch_u64(world, KUMIKI_SWAP, word, 12, 0, &old));
    CHECK(old == 6);
    OK(kumiki_fetch_u32(world, KUMIKI_XOR, word, 5, 0, &half));
    CHECK(half == 12);
    OK(kumiki_fetch_u32(world, KUMIKI_OR, word, 16, 0, NULL));
    OK(kumiki_fetch_u32(world, KUMIKI_AND, word, 17, 0, &half));
    OK(kumiki_fetch_u32(world, KUMIKI_MAX, word, 0, 0, NULL));
    CHECK(half == 25);
    OK(kumiki_atomic_u64(world, KUMIKI_ADD, mine, word, 1, 0, KUMIKI_ORDER_NONE, &handle));
    OK(kumiki_atomic_u32(world, KUMIKI_ADD, mine + 8, word, 1, 0, handle, &handle));
    OK(kumiki_complete_for(world, handle, 60000));
    OK(kumiki_complete(world, handle));
    OK(kumiki_inquire(world, handle, &complete));
    CHECK(complete == 1);
    OK(kumiki_get(world, &old, mine, 8));
    OK(kumiki_get(world, &half, mine + 8, 4));
    OK(kumiki_get(world, &now, word, 8));
    CHECK(old == 17 && half == 18 && now == 19);
    CHECK(kumiki_fetch_u64(world, 99, word, 0, 0, NULL) == KUMIKI_MISUSE);
    CHECK(strstr(kumiki_last_error(), "99") != NULL);
    CHECK(kumiki_fetch_u64(world, KUMIKI_ADD, word + 4, 0, 0, NULL) == KUMIKI_MISUSE);
}

static void check_memory(kumiki_world *world)
{
    int64_t me = kumiki_rank(world), ranks = kumiki_ranks(world), rank;
    kumiki_address region = KUMIKI_NULL, registered = KUMIKI_NULL, other = KUMIKI_NULL;
    char block[100], back[100];
    OK(kumiki_alloc(world, 1000, &region));
    CHECK(((char *)kumiki_pointer(world, region))[999] == 0);
    memset(block, (int)me + 1, sizeof block);
    OK(kumiki_register(world, block, sizeof block, &registered));
    CHECK(kumiki_pointer(world, registered + 7) == block + 7);
    OK(kumiki_copy(world, region, registered, sizeof block, KUMIKI_ORDER_ALL, NULL));
    OK(kumiki_copy(world, region + 100, region, sizeof block, KUMIKI_ORDER_CONTINUE, NULL));
    OK(kumiki_complete_all(world));
    OK(kumiki_put(world, words(world, me) + 256, &region, 8));
    OK(kumiki_sync(world));
    for (rank = 0; rank < ranks; rank++) {
        OK(kumiki_get(world, &other, words(world, rank) + 256, 8));
        CHECK(kumiki_rank_of(world, other) == rank);
        CHECK((kumiki_pointer(world, other) == NULL) == (rank != me));
        OK(kumiki_get(world, back, other + 100, sizeof back));
        CHECK(back[0] == (char)(rank + 1) && back[99] == (char)(rank + 1));
    }
    for (rank = 0; rank < ranks; rank++) {
        OK(kumiki_malloc(world, 100, (uint32_t)rank, &other));
        CHECK(kumiki_rank_of(world, other) == rank);
        OK(kumiki_put(world, other, block, sizeof block));
        OK(kumiki_free(world, other));
        /* With more ranks another one may have taken it meanwhile. */
        CHECK(ranks > 1 || kumiki_free(world, other) == KUMIKI_MISUSE);
    }
    CHECK(kumiki_malloc(world, 100, (uint32_t)ranks, &other) == KUMIKI_MISUSE);
    CHECK(kumiki_register(world, block, sizeof block, NULL) == KUMIKI_MISUSE);
    CHECK(kumiki_put(world, region, block, ~(size_t)0) == KUMIKI_MISUSE);
    CHECK(kumiki_get(world, block, region, ~(size_t)0 / 2 + 1) == KUMIKI_MISUSE);
    CHECK(kumiki_put(world, region, NULL, 1) == KUMIKI_MISUSE && kumiki_put(world, region, NULL, 0) == KUMIKI_SUCCESS);
    OK(kumiki_sync_for(world, 60000));
    OK(kumiki_unregister(world, registered));
    CHECK(kumiki_unregister(world, registered) == KUMIKI_MISUSE);
    CHECK(kumiki_get(world, back, registered, 8) == KUMIKI_BOUNDS);
    OK(kumiki_dealloc(world, region));
    CHECK(kumiki_dealloc(world, region) == KUMIKI_MISUSE);
    CHECK(kumiki_rank_of(world, KUMIKI_NULL) == -1);
}

static void check_ledger(kumiki_world *world)
{
    kumiki_ledger before, ledger;
    kumiki_address region = KUMIKI_NULL;
    uint64_t bytes = 0;
    OK(kumiki_read_ledger(world, &before));
    OK(kumiki_alloc(world, 1 << 16, &region));
    OK(kumiki_read_ledger(world, &ledger));
    CHECK(ledger.arena_bytes >= before.arena_bytes + (1 << 16));
    OK(kumiki_ledger_bytes(world, "heap", &bytes));
    CHECK(bytes >= 1 << 16);
    CHECK(kumiki_ledger_bytes(world, "nonsense", &bytes) == KUMIKI_MISUSE);
    CHECK(kumiki_alloc(world, (size_t)1 << 46, &region) == KUMIKI_OUT_OF_MEMORY);
}

/* A number that is no world is found out wherever a world is wanted. */
static void is_no_world(kumiki_world *world)
{
    kumiki_address word = 0;
    kumiki_group *group = NULL;
    uint64_t value = 0;
    CHECK(kumiki_rank(world) == -1 && strstr(kumiki_last_error(), "no such world") != NULL);
    CHECK(kumiki_ranks(world) == -1 && kumiki_pointer(world, 0) == NULL);
    CHECK(kumiki_sync(world) == KUMIKI_MISUSE && kumiki_complete_all(world) == KUMIKI_MISUSE);
    CHECK(kumiki_starter(world, 0, &word) == KUMIKI_MISUSE && kumiki_get(world, &value, 0, 8) == KUMIKI_MISUSE);
    CHECK(kumiki_alloc(world, 8, &word) == KUMIKI_MISUSE && kumiki_group_create(world, NULL, &group) == KUMIKI_MISUSE);
    CHECK(kumiki_register(world, &value, 8, &word) == KUMIKI_MISUSE && kumiki_abort(world, "nobody") == KUMIKI_MISUSE);
    CHECK(kumiki_reset(world, 0) == KUMIKI_MISUSE && kumiki_finalize(world) == KUMIKI_MISUSE);
    CHECK(kumiki_join_leave(world) == KUMIKI_MISUSE);
}

/* Worlds one after the other: the handle of one that has ended does not come to life with the next one. */
static void check_handles(void)
{
    static const uintptr_t NUMBERS[] = {1, 8, 16, 24, 4096, ~(uintptr_t)0};
    kumiki_world *world = NULL, *first;
    kumiki_group *group = NULL;
    size_t i;
    OK(kumiki_init(&world));
    for (i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++)
        is_no_world((kumiki_world *)NUMBERS[i]);
    OK(kumiki_group_create(world, NULL, &group));
    is_no_world((kumiki_world *)(void *)group);
    CHECK(kumiki_group_free((kumiki_group *)(void *)world) == KUMIKI_MISUSE);
    OK(kumiki_group_free(group));
    first = world;
    OK(kumiki_finalize(world));
    is_no_world(first);
    OK(kumiki_init(&world));
    CHECK(world != first && kumiki_rank(world) >= 0);
    is_no_world(first);
    OK(kumiki_finalize(world));
    is_no_world(first);
    is_no_world(world);
}

int main(void)
{
    kumiki_world *world = NULL;
    int64_t rank;
    CHECK(kumiki_init(NULL) == KUMIKI_MISUSE);
    /* NULL is the world of acp_init, and there is none. */
    CHECK(kumiki_rank(NULL) == -1 && strstr(kumiki_last_error(), "there is no world") != NULL);
    OK(kumiki_init(&world));
    CHECK(strlen(kumiki_version()) >= 5 && strcmp(kumiki_status_name(KUMIKI_TIMEOUT), "timed out") == 0);
    CHECK(kumiki_node(world) >= 0 && kumiki_node(world) < kumiki_nodes(world));
    CHECK(kumiki_starter_bytes(world) >= 1024);
    for (rank = 0; rank < kumiki_ranks(world); rank++) {
        CHECK(kumiki_node_of(world, (uint32_t)rank) >= 0);
        check_atomics(world, words(world, kumiki_rank(world)) + 512,
            words(world, rank) + 128 + 8 * (uint64_t)kumiki_rank(world));
    }
    CHECK(kumiki_node_of(world, (uint32_t)kumiki_ranks(world)) == -1);
    check_memory(world);
    check_ledger(world);
    rank = (kumiki_rank(world) + 1) % kumiki_ranks(world);
    OK(kumiki_sync(world));
    OK(kumiki_reset(world, (uint32_t)rank));
    CHECK(kumiki_rank(world) == rank);
    OK(kumiki_finalize(world));
    CHECK(kumiki_finalize(NULL) == KUMIKI_MISUSE);
    CHECK(kumiki_abort(NULL, "nobody") == KUMIKI_CLOSED);
    check_handles();
    return 0;
}
