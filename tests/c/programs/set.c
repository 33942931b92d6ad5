/* Every function of sets: alone, and by all ranks at once. */
#define KIND set
#define KIND_IT set_it
#define TABLE acp_set_t
#define TABLE_IT acp_set_it_t
#define MEMBER set
#define KEY_AT 24
#define REMOVE remove
#include "keys.h"

static void check_own(table_t set)
{
    CHECK(acp_insert_set(set, number(3, 0)) == 1 && acp_size_set(set) == KEYS);
}

static void check_counts(table_t set)
{
    CHECK(acp_size_set(set) == KEYS);
}
