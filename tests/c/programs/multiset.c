/* Every function of multisets: alone, and by all ranks at once. */
#define KIND multiset
#define KIND_IT multiset_it
#define TABLE acp_multiset_t
#define TABLE_IT acp_multiset_it_t
#define MEMBER set
#define KEY_AT 32
#define REMOVE remove_all
#include "keys.h"

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

static void check_counts(table_t set)
{
    uint64_t key;
    for (key = 0; key < KEYS; key++)
        CHECK(acp_retrieve_multiset(set, number(key, 0)) == (uint64_t)acp_procs());
}
