/* What the programs about sets and multisets share. Who includes it says first, beside what table.h wants, where in an element
   its key is (KEY_AT), and which operation takes a key away wholly (REMOVE). C and C++. */
#ifndef KEYS_H
#define KEYS_H

#include "table.h"

/* Checks how often keys are there, when all ranks have put in every one. */
static void check_counts(table_t table);

static int insert(table_t table, uint64_t key)
{
    return CALL(insert)(table, number(key, 0));
}

static uint64_t key_of(table_it_t it)
{
    acp_element_t key = CALL_IT(dereference)(it);
    CHECK(key.size == 8 && key.ga == it.elem + KEY_AT && load(key.ga - 8) == 8);
    return load(key.ga);
}

/* All ranks, one table. */
static void check_shared(void)
{
    int me = acp_rank(), procs = acp_procs();
    table_t table = share();
    uint64_t key, sum;
    for (key = 0; key < KEYS; key++)
        CHECK(insert(table, key) == 1);
    acp_sync();
    check_counts(table);
    CHECK(walk(table, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    acp_sync();
    for (key = (uint64_t)me; key < KEYS; key += (uint64_t)procs)
        CALL(REMOVE)(table, number(key, 0));
    acp_sync();
    CHECK(CALL(empty)(table));
    acp_sync();
    if (me == procs - 1)
        CALL(destroy)(table);
    acp_sync();
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    check_shared();
    CHECK(acp_finalize() == 0);
    return 0;
}

#endif
