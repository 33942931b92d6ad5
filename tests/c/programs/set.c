/* Every function of sets: alone, and by all ranks at once. */
#define KIND set
#define KIND_IT set_it
#define TABLE acp_set_t
#define TABLE_IT acp_set_it_t
#define MEMBER set
#include "table.h"

static int insert(table_t set, uint64_t key)
{
    return acp_insert_set(set, number(key, 0));
}

static uint64_t key_of(table_it_t it)
{
    acp_element_t key = acp_dereference_set_it(it);
    CHECK(key.size == 8 && key.ga == it.elem + 24 && load(key.ga - 8) == 8);
    return load(key.ga);
}

static void check_own(table_t set)
{
    CHECK(acp_insert_set(set, number(3, 0)) == 1 && acp_size_set(set) == KEYS);
}

/* All ranks, one set. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    acp_set_t set = share();
    uint64_t key, sum;
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
    start(&argc, &argv);
    check_shared();
    CHECK(acp_finalize() == 0);
    return 0;
}
