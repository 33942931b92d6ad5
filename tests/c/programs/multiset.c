/* Every function of multisets: alone, and by all ranks at once. */
#define KIND multiset
#define KIND_IT multiset_it
#define TABLE acp_multiset_t
#define TABLE_IT acp_multiset_it_t
#define MEMBER set
#include "table.h"

static int insert(table_t set, uint64_t key)
{
    return acp_insert_multiset(set, number(key, 0));
}

static uint64_t key_of(table_it_t it)
{
    acp_element_t key = acp_dereference_multiset_it(it);
    CHECK(key.size == 8 && key.ga == it.elem + 32 && load(key.ga - 8) == 8);
    return load(key.ga);
}

static void check_own(table_t set)
{
    CHECK(acp_insert_multiset(set, number(3, 0)) == 1 && acp_size_multiset(set) == KEYS);
    CHECK(acp_retrieve_multiset(set, number(3, 0)) == 2 && acp_retrieve_multiset(set, number(5, 0)) == 1);
    CHECK(acp_retrieve_multiset(set, number(1000, 0)) == 0);
    CHECK(load(acp_find_multiset(set, number(3, 0)).elem + 16) == 2);
    acp_remove_multiset(set, number(3, 0));
    CHECK(acp_retrieve_multiset(set, number(3, 0)) == 1 && has(set, 3));
    CHECK(acp_insert_multiset(set, number(4, 0)) == 1 && acp_insert_multiset(set, number(4, 0)) == 1);
    acp_remove_all_multiset(set, number(4, 0));
    CHECK(acp_retrieve_multiset(set, number(4, 0)) == 0 && acp_insert_multiset(set, number(4, 0)) == 1);
}

/* All ranks, one multiset. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_multiset_t set = share();
    uint64_t key, sum;
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
    start(&argc, &argv);
    check_shared();
    CHECK(acp_finalize() == 0);
    return 0;
}
