/* Every function of maps: alone, and by all ranks at once. */
#include "data.h"

#define SLOTS 7
#define KEYS 40

static int all_ranks[64];

static acp_pair_t pair_of(uint64_t key, uint64_t value)
{
    acp_pair_t pair;
    pair.first = number(key, 0);
    pair.second = number(value, 1);
    return pair;
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

static int is_end(acp_map_t map, acp_map_it_t it)
{
    CHECK(it.map.ga == map.ga);
    CHECK((it.rank == (int)map.num_ranks) == (it.elem == 0));
    return it.rank == (int)map.num_ranks && it.slot == 0 && it.elem == 0;
}

/* Goes through a map as programs do, and through its words; gives how many keys there are, and their sum. */
static size_t walk(acp_map_t map, uint64_t *sum)
{
    acp_map_it_t it;
    size_t count = 0, in_words = 0;
    uint64_t rank, slot;
    *sum = 0;
    for (it = acp_begin_map(map); it.rank < (int)map.num_ranks; it = acp_increment_map_it(it)) {
        acp_pair_t pair = acp_dereference_map_it(it);
        CHECK(pair.first.size == 8 && pair.second.size == 8);
        /* The layout that programs read: next, previous, size, key length, key, value. */
        CHECK(pair.first.ga == it.elem + 32 && pair.second.ga == it.elem + 40);
        CHECK(load(it.elem + 16) == 24 && load(it.elem + 24) == 8);
        *sum += load(pair.first.ga);
        count++;
    }
    CHECK(is_end(map, it));
    for (rank = 0; rank < map.num_ranks; rank++) {
        acp_ga_t slots = load(map.ga + 8 * rank);
        for (slot = 0; slot < map.num_slots; slot++) {
            size_t in_slot = 0;
            acp_ga_t element;
            for (element = load(slots + 32 * slot + 8); element != 0; element = load(element))
                in_slot++;
            CHECK(load(slots + 32 * slot + 24) == in_slot && load(slots + 32 * slot) == 0);
            in_words += in_slot;
        }
    }
    CHECK(count == in_words);
    return count;
}

static acp_map_t create(int owner)
{
    acp_map_t map = acp_create_map(acp_procs(), all_ranks, SLOTS, owner);
    CHECK(map.ga != ACP_GA_NULL && map.num_ranks == (uint64_t)acp_procs() && map.num_slots == SLOTS);
    return map;
}

static void check_alone(void)
{
    acp_map_t map = create(acp_rank()), other = create(acp_rank());
    acp_map_it_t it;
    uint64_t key, sum;
    CHECK(acp_empty_map(map) && acp_size_map(map) == 0 && is_end(map, acp_begin_map(map)));
    CHECK(is_end(map, acp_end_map(map)));
    for (key = 0; key < KEYS; key++)
        CHECK(acp_insert_map(map, pair_of(key, key * 10)) == 1);
    CHECK(acp_insert_map(map, pair_of(5, 99)) == 0 && value_of(map, 5) == 50);
    CHECK(!acp_empty_map(map) && acp_size_map(map) == KEYS);
    CHECK(walk(map, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    it = acp_find_map(map, number(7, 0));
    CHECK(it.elem != 0 && load(acp_dereference_map_it(it).second.ga) == 70);
    CHECK(is_end(map, acp_find_map(map, number(1000, 0))) && value_of(map, 1000) == -1);
    acp_remove_map(map, number(7, 0));
    acp_remove_map(map, number(1000, 0));
    CHECK(value_of(map, 7) == -1 && acp_size_map(map) == KEYS - 1);
    {
        acp_pair_t nothing = pair_of(8, 0);
        nothing.second.size = 0;
        CHECK(acp_insert_map(map, nothing) == 0 && value_of(map, 8) == -1);
        nothing = pair_of(9, 0);
        nothing.second.size = 4;
        *my_word(102) = ~(uint64_t)0;
        CHECK(acp_retrieve_map(map, nothing) == 8 && *my_word(102) == 0xffffffff0000005aULL);
    }
    CHECK(acp_insert_map(other, pair_of(1, 1)) == 1 && acp_insert_map(other, pair_of(100, 2)) == 1);
    acp_merge_map(map, other);
    CHECK(value_of(map, 1) == 10 && value_of(map, 100) == 2 && acp_size_map(other) == 2);
    acp_assign_map(other, map);
    CHECK(acp_size_map(other) == acp_size_map(map) && value_of(other, 1) == 10);
    acp_clear_map(map);
    CHECK(acp_empty_map(map) && walk(map, &sum) == 0);
    acp_move_map(map, other);
    CHECK(acp_empty_map(other) && acp_size_map(map) == KEYS - 1 && value_of(map, 100) == 2);
    acp_swap_map(map, other);
    CHECK(acp_empty_map(map) && value_of(other, 3) == 30);
    acp_destroy_map(map);
    acp_destroy_map(other);
}

/* The part of a map on this rank. */
static void check_local(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_map_t map = create(me), other = create(me);
    acp_map_it_t it;
    size_t here = 0;
    uint64_t key;
    for (key = 0; key < KEYS; key++)
        acp_insert_map(map, pair_of(key, key));
    for (it = acp_begin_local_map(map); it.rank == me; it = acp_increment_map_it(it)) {
        CHECK(acp_query_rank(it.elem) == me);
        here++;
        if (it.elem == acp_end_local_map(map).elem)
            break;
    }
    CHECK(acp_size_local_map(map) == here && acp_empty_local_map(map) == (here == 0));
    acp_merge_local_map(other, map);
    CHECK(acp_size_map(other) == here && acp_size_map(map) == KEYS);
    acp_assign_local_map(other, map);
    CHECK(acp_size_local_map(other) == here);
    acp_clear_local_map(other);
    CHECK(acp_size_map(other) == 0);
    acp_move_local_map(other, map);
    CHECK(acp_size_map(other) == here && acp_size_local_map(map) == 0 && acp_size_map(map) == KEYS - here);
    CHECK(procs > 1 || here == KEYS);
    acp_destroy_map(map);
    acp_destroy_map(other);
}

/* All ranks, one map: every key is new exactly once. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_map_t map;
    uint64_t all[64], key, mine = 0, total = 0, sum;
    int rank;
    memset(&map, 0, sizeof map);
    if (me == procs - 1)
        map = create(me);
    exchange(map.ga, all);
    map.ga = all[procs - 1];
    map.num_ranks = (uint64_t)procs;
    map.num_slots = SLOTS;
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
    if (me == 0)
        acp_destroy_map(map);
    acp_sync();
}

int main(int argc, char **argv)
{
    int rank;
    CHECK(acp_init(&argc, &argv) == 0);
    for (rank = 0; rank < acp_procs(); rank++)
        all_ranks[rank] = rank;
    check_alone();
    check_local();
    acp_sync();
    check_shared();
    all_ranks[0] = -1;
    CHECK(acp_create_map(1, all_ranks, 8, 0).ga == ACP_GA_NULL);
    CHECK(acp_finalize() == 0);
    return 0;
}
