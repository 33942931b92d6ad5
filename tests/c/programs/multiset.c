/* Every function of multisets: alone, and by all ranks at once. */
#include "data.h"

#define SLOTS 5
#define KEYS 30

static int all_ranks[64];

static int is_end(acp_multiset_t set, acp_multiset_it_t it)
{
    CHECK(it.set.ga == set.ga);
    return it.rank == (int)set.num_ranks && it.slot == 0 && it.elem == 0;
}

static acp_multiset_t create(int owner)
{
    acp_multiset_t set = acp_create_multiset(acp_procs(), all_ranks, SLOTS, owner);
    CHECK(set.ga != ACP_GA_NULL && set.num_ranks == (uint64_t)acp_procs() && set.num_slots == SLOTS);
    return set;
}

static int has(acp_multiset_t set, uint64_t key)
{
    return acp_find_multiset(set, number(key, 0)).elem != 0;
}

/* Goes through all keys; gives how many there are. */
static size_t walk(acp_multiset_t set, uint64_t *sum)
{
    acp_multiset_it_t it;
    size_t count = 0;
    *sum = 0;
    for (it = acp_begin_multiset(set); it.rank < (int)set.num_ranks; it = acp_increment_multiset_it(it)) {
        acp_element_t key = acp_dereference_multiset_it(it);
        CHECK(key.size == 8 && key.ga == it.elem + 32 && load(key.ga - 8) == 8);
        *sum += load(key.ga);
        count++;
    }
    CHECK(is_end(set, it) && is_end(set, acp_end_multiset(set)));
    return count;
}

static void check_alone(void)
{
    acp_multiset_t set = create(acp_rank()), other = create(acp_rank());
    uint64_t key, sum;
    CHECK(acp_empty_multiset(set) && acp_size_multiset(set) == 0 && is_end(set, acp_begin_multiset(set)));
    for (key = 0; key < KEYS; key++)
        CHECK(acp_insert_multiset(set, number(key, 0)) == 1);
    CHECK(acp_insert_multiset(set, number(3, 0)) == 1);
    CHECK(!acp_empty_multiset(set) && acp_size_multiset(set) == KEYS);
    CHECK(walk(set, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    CHECK(has(set, 3) && !has(set, 1000) && is_end(set, acp_find_multiset(set, number(1000, 0))));
    CHECK(acp_retrieve_multiset(set, number(3, 0)) == 2 && acp_retrieve_multiset(set, number(5, 0)) == 1);
    CHECK(acp_retrieve_multiset(set, number(1000, 0)) == 0);
    CHECK(load(acp_find_multiset(set, number(3, 0)).elem + 16) == 2);
    acp_remove_multiset(set, number(3, 0));
    CHECK(acp_retrieve_multiset(set, number(3, 0)) == 1 && has(set, 3));
    CHECK(acp_insert_multiset(set, number(4, 0)) == 1 && acp_insert_multiset(set, number(4, 0)) == 1);
    acp_remove_all_multiset(set, number(4, 0));
    CHECK(acp_retrieve_multiset(set, number(4, 0)) == 0 && acp_insert_multiset(set, number(4, 0)) == 1);
    acp_remove_multiset(set, number(4, 0));
    acp_remove_multiset(set, number(1000, 0));
    CHECK(!has(set, 4) && acp_size_multiset(set) == KEYS - 1);
    CHECK(acp_insert_multiset(other, number(1, 0)) == 1 && acp_insert_multiset(other, number(100, 0)) == 1);
    acp_merge_multiset(set, other);
    CHECK(has(set, 100) && acp_size_multiset(set) == KEYS && acp_size_multiset(other) == 2);
    acp_assign_multiset(other, set);
    CHECK(acp_size_multiset(other) == KEYS && has(other, 100));
    acp_clear_multiset(set);
    CHECK(acp_empty_multiset(set) && walk(set, &sum) == 0);
    acp_move_multiset(set, other);
    CHECK(acp_empty_multiset(other) && acp_size_multiset(set) == KEYS);
    acp_swap_multiset(set, other);
    CHECK(acp_empty_multiset(set) && has(other, 100));
    acp_destroy_multiset(set);
    acp_destroy_multiset(other);
}

/* The part on this rank. */
static void check_local(void)
{
    int me = acp_rank();
    acp_multiset_t set = create(me), other = create(me);
    acp_multiset_it_t it;
    size_t here = 0;
    uint64_t key;
    for (key = 0; key < KEYS; key++)
        acp_insert_multiset(set, number(key, 0));
    for (it = acp_begin_local_multiset(set); it.rank == me && it.elem != acp_end_local_multiset(set).elem;
         it = acp_increment_multiset_it(it)) {
        CHECK(acp_query_rank(it.elem) == me);
        here++;
    }
    CHECK(acp_size_local_multiset(set) == here && acp_empty_local_multiset(set) == (here == 0));
    acp_merge_local_multiset(other, set);
    CHECK(acp_size_multiset(other) == here && acp_size_multiset(set) == KEYS);
    acp_assign_local_multiset(other, set);
    CHECK(acp_size_local_multiset(other) == here);
    acp_clear_local_multiset(other);
    CHECK(acp_size_multiset(other) == 0);
    acp_move_local_multiset(other, set);
    CHECK(acp_size_multiset(other) == here && acp_size_multiset(set) == KEYS - here);
    acp_destroy_multiset(set);
    acp_destroy_multiset(other);
}

/* All ranks, one set. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_multiset_t set;
    uint64_t all[64], key, sum;
    memset(&set, 0, sizeof set);
    if (me == 0)
        set = create(me);
    exchange(set.ga, all);
    set.ga = all[0];
    set.num_ranks = (uint64_t)procs;
    set.num_slots = SLOTS;
    for (key = 0; key < KEYS; key++)
        CHECK(acp_insert_multiset(set, number(key, 0)) == 1);
    acp_sync();
    CHECK(walk(set, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    for (key = 0; key < KEYS; key++)
        CHECK(acp_retrieve_multiset(set, number(key, 0)) == (uint64_t)procs);
    acp_sync();
    for (key = (uint64_t)me; key < KEYS; key += (uint64_t)procs)
        acp_remove_all_multiset(set, number(key, 0));
    acp_sync();
    CHECK(acp_empty_multiset(set));
    acp_sync();
    if (me == procs - 1)
        acp_destroy_multiset(set);
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
    CHECK(acp_create_multiset(0, all_ranks, 8, 0).ga == ACP_GA_NULL);
    CHECK(acp_finalize() == 0);
    return 0;
}
