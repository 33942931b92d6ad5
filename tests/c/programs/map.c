/* Every function of maps: alone, and by all ranks at once. */
#define KIND map
#define KIND_IT map_it
#define TABLE acp_map_t
#define TABLE_IT acp_map_it_t
#define MEMBER map
#include "table.h"

static acp_pair_t pair_of(uint64_t key, uint64_t value)
{
    acp_pair_t pair;
    pair.first = number(key, 0);
    pair.second = number(value, 1);
    return pair;
}

static int insert(table_t map, uint64_t key)
{
    return acp_insert_map(map, pair_of(key, key * 10));
}

/* The value of a key, or -1. */
static int64_t value_of(acp_map_t map, uint64_t key)
{
    acp_pair_t pair = pair_of(key, 0);
    size_t size = acp_retrieve_map(map, pair);
    if (size == 0)
        return -1;
    CHECK(size == 8);
    return (int64_t)*my_word(102);
}

/* The layout that programs read: next, previous, size, key length, key, value. */
static uint64_t key_of(table_it_t it)
{
    acp_pair_t pair = acp_dereference_map_it(it);
    CHECK(pair.first.size == 8 && pair.second.size == 8);
    CHECK(pair.first.ga == it.elem + 32 && pair.second.ga == it.elem + 40);
    CHECK(load(it.elem + 16) == 24 && load(it.elem + 24) == 8);
    return load(pair.first.ga);
}

static void check_own(table_t map)
{
    acp_map_it_t it = acp_find_map(map, number(7, 0));
    acp_map_t other = create(acp_rank());
    acp_pair_t nothing;
    CHECK(it.elem != 0 && load(acp_dereference_map_it(it).second.ga) == 70);
    CHECK(acp_insert_map(map, pair_of(5, 99)) == 0 && value_of(map, 5) == 50 && value_of(map, 1000) == -1);
    nothing = pair_of(8, 0);
    nothing.second.size = 0;
    CHECK(acp_insert_map(map, nothing) == 0 && value_of(map, 8) == -1);
    CHECK(acp_insert_map(map, pair_of(8, 80)) == 1);
    nothing = pair_of(9, 0);
    nothing.second.size = 4;
    *my_word(102) = ~(uint64_t)0;
    CHECK(acp_retrieve_map(map, nothing) == 8 && *my_word(102) == 0xffffffff0000005aULL);
    /* The value of the first stays. */
    CHECK(acp_insert_map(other, pair_of(1, 1)) == 1);
    acp_merge_map(map, other);
    CHECK(value_of(map, 1) == 10 && value_of(other, 1) == 1);
    acp_destroy_map(other);
}

/* All ranks, one map: every key is new exactly once. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs(), rank;
    acp_map_t map = share();
    uint64_t all[64], key, mine = 0, total = 0, sum;
    for (key = 0; key < KEYS; key++)
        mine += (uint64_t)acp_insert_map(map, pair_of(key, 1000 + key));
    exchange(mine, all);
    for (rank = 0; rank < procs; rank++)
        total += all[rank];
    CHECK(total == KEYS && acp_size_map(map) == KEYS);
    for (key = 0; key < KEYS; key++)
        CHECK(value_of(map, key) == (int64_t)(1000 + key));
    acp_sync();
    /* Each rank takes away its share, and puts in one of its own. */
    for (key = (uint64_t)me; key < KEYS; key += (uint64_t)procs)
        acp_remove_map(map, number(key, 0));
    CHECK(acp_insert_map(map, pair_of(500 + (uint64_t)me, 1)) == 1);
    acp_sync();
    CHECK(walk(map, &sum) == (size_t)procs);
    acp_sync();
    if (me == procs - 1)
        acp_destroy_map(map);
    acp_sync();
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    check_shared();
    all_ranks[0] = -1;
    CHECK(acp_create_map(1, all_ranks, 8, 0).ga == ACP_GA_NULL);
    CHECK(acp_finalize() == 0);
    return 0;
}
