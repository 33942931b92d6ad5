/* Every function of sets: alone, and by all ranks at once. */
#include "data.h"

#define SLOTS 5
#define KEYS 30

static int all_ranks[64];

static int is_end(acp_set_t set, acp_set_it_t it)
{
    CHECK(it.set.ga == set.ga);
    return it.rank == (int)set.num_ranks && it.slot == 0 && it.elem == 0;
}

static acp_set_t create(int owner)
{
    acp_set_t set = acp_create_set(acp_procs(), all_ranks, SLOTS, owner);
    CHECK(set.ga != ACP_GA_NULL && set.num_ranks == (uint64_t)acp_procs() && set.num_slots == SLOTS);
    return set;
}

static int has(acp_set_t set, uint64_t key)
{
    return acp_find_set(set, number(key, 0)).elem != 0;
}

/* Goes through all keys; gives how many there are. */
static size_t walk(acp_set_t set, uint64_t *sum)
{
    acp_set_it_t it;
    size_t count = 0;
    *sum = 0;
    for (it = acp_begin_set(set); it.rank < (int)set.num_ranks; it = acp_increment_set_it(it)) {
        acp_element_t key = acp_dereference_set_it(it);
        CHECK(key.size == 8 && key.ga == it.elem + 24 && load(key.ga - 8) == 8);
        *sum += load(key.ga);
        count++;
    }
    CHECK(is_end(set, it) && is_end(set, acp_end_set(set)));
    return count;
}

static void check_alone(void)
{
    acp_set_t set = create(acp_rank()), other = create(acp_rank());
    uint64_t key, sum;
    CHECK(acp_empty_set(set) && acp_size_set(set) == 0 && is_end(set, acp_begin_set(set)));
    for (key = 0; key < KEYS; key++)
        CHECK(acp_insert_set(set, number(key, 0)) == 1);
    CHECK(acp_insert_set(set, number(3, 0)) == 1);
    CHECK(!acp_empty_set(set) && acp_size_set(set) == KEYS);
    CHECK(walk(set, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    CHECK(has(set, 3) && !has(set, 1000) && is_end(set, acp_find_set(set, number(1000, 0))));
    acp_remove_set(set, number(4, 0));
    acp_remove_set(set, number(1000, 0));
    CHECK(!has(set, 4) && acp_size_set(set) == KEYS - 1);
    CHECK(acp_insert_set(other, number(1, 0)) == 1 && acp_insert_set(other, number(100, 0)) == 1);
    acp_merge_set(set, other);
    CHECK(has(set, 100) && acp_size_set(set) == KEYS && acp_size_set(other) == 2);
    acp_assign_set(other, set);
    CHECK(acp_size_set(other) == KEYS && has(other, 100));
    acp_clear_set(set);
    CHECK(acp_empty_set(set) && walk(set, &sum) == 0);
    acp_move_set(set, other);
    CHECK(acp_empty_set(other) && acp_size_set(set) == KEYS);
    acp_swap_set(set, other);
    CHECK(acp_empty_set(set) && has(other, 100));
    acp_destroy_set(set);
    acp_destroy_set(other);
}

/* The part on this rank. */
static void check_local(void)
{
    int me = acp_rank();
    acp_set_t set = create(me), other = create(me);
    acp_set_it_t it;
    size_t here = 0;
    uint64_t key;
    for (key = 0; key < KEYS; key++)
        acp_insert_set(set, number(key, 0));
    for (it = acp_begin_local_set(set); it.rank == me && it.elem != acp_end_local_set(set).elem;
         it = acp_increment_set_it(it)) {
        CHECK(acp_query_rank(it.elem) == me);
        here++;
    }
    CHECK(acp_size_local_set(set) == here && acp_empty_local_set(set) == (here == 0));
    acp_merge_local_set(other, set);
    CHECK(acp_size_set(other) == here && acp_size_set(set) == KEYS);
    acp_assign_local_set(other, set);
    CHECK(acp_size_local_set(other) == here);
    acp_clear_local_set(other);
    CHECK(acp_size_set(other) == 0);
    acp_move_local_set(other, set);
    CHECK(acp_size_set(other) == here && acp_size_set(set) == KEYS - here);
    acp_destroy_set(set);
    acp_destroy_set(other);
}

/* All ranks, one set. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_set_t set;
    uint64_t all[64], key, sum;
    memset(&set, 0, sizeof set);
    if (me == 0)
        set = create(me);
    exchange(set.ga, all);
    set.ga = all[0];
    set.num_ranks = (uint64_t)procs;
    set.num_slots = SLOTS;
    for (key = 0; key < KEYS; key++)
        CHECK(acp_insert_set(set, number(key, 0)) == 1);
    acp_sync();
    CHECK(walk(set, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    acp_sync();
    for (key = (uint64_t)me; key < KEYS; key += (uint64_t)procs)
        acp_remove_set(set, number(key, 0));
    acp_sync();
    CHECK(acp_empty_set(set));
    acp_sync();
    if (me == procs - 1)
        acp_destroy_set(set);
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
    CHECK(acp_create_set(0, all_ranks, 8, 0).ga == ACP_GA_NULL);
    CHECK(acp_finalize() == 0);
    return 0;
}
