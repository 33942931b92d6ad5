/* What the programs about maps, sets and multisets share. Who includes it says first which it is: KIND and KIND_IT are the words
   in the names of its functions, TABLE and TABLE_IT its types, and MEMBER is the field of its iterators. C and C++. */
#ifndef TABLE_H
#define TABLE_H

#include "data.h"

/* A function of this kind of table: CALL(size) is acp_size_set. */
#define PASTE(before, operation, kind) before##operation##_##kind
#define NAME(before, operation, kind) PASTE(before, operation, kind)
#define CALL(operation) NAME(acp_, operation, KIND)
#define CALL_IT(operation) NAME(acp_, operation, KIND_IT)

#define SLOTS 5
#define KEYS 30

typedef TABLE table_t;
typedef TABLE_IT table_it_t;

static int all_ranks[64];

/* What a program puts in for a key: acp_insert_map wants a pair, the others the key alone. */
static int insert(table_t table, uint64_t key);
/* Checks an element as programs read it, and gives its key. */
static uint64_t key_of(table_it_t it);
/* What only this kind has, with a table that holds the keys from 0 to KEYS - 1. */
static void check_own(table_t table);

static int is_end(table_t table, table_it_t it)
{
    CHECK(it.MEMBER.ga == table.ga);
    CHECK((it.rank == (int)table.num_ranks) == (it.elem == 0));
    return it.rank == (int)table.num_ranks && it.slot == 0 && it.elem == 0;
}

static table_t create(int owner)
{
    table_t table = CALL(create)(acp_procs(), all_ranks, SLOTS, owner);
    CHECK(table.ga != ACP_GA_NULL && table.num_ranks == (uint64_t)acp_procs() && table.num_slots == SLOTS);
    return table;
}

static int has(table_t table, uint64_t key)
{
    return CALL(find)(table, number(key, 0)).elem != 0;
}

/* Goes through a table as programs do, and through its words; gives how many keys there are, and their sum. */
static size_t walk(table_t table, uint64_t *sum)
{
    table_it_t it;
    size_t count = 0, in_words = 0;
    uint64_t rank, slot;
    *sum = 0;
    for (it = CALL(begin)(table); it.rank < (int)table.num_ranks; it = CALL_IT(increment)(it)) {
        *sum += key_of(it);
        count++;
    }
    CHECK(is_end(table, it) && is_end(table, CALL(end)(table)));
    for (rank = 0; rank < table.num_ranks; rank++) {
        acp_ga_t slots = load(table.ga + 8 * rank);
        for (slot = 0; slot < table.num_slots; slot++) {
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

static void check_alone(void)
{
    table_t table = create(acp_rank()), other = create(acp_rank());
    uint64_t key, sum;
    CHECK(CALL(empty)(table) && CALL(size)(table) == 0 && is_end(table, CALL(begin)(table)));
    for (key = 0; key < KEYS; key++)
        CHECK(insert(table, key) == 1);
    CHECK(!CALL(empty)(table) && CALL(size)(table) == KEYS);
    CHECK(walk(table, &sum) == KEYS && sum == KEYS * (KEYS - 1) / 2);
    CHECK(has(table, 3) && !has(table, 1000) && is_end(table, CALL(find)(table, number(1000, 0))));
    check_own(table);
    CHECK(CALL(size)(table) == KEYS);
    CALL(remove)(table, number(4, 0));
    CALL(remove)(table, number(1000, 0));
    CHECK(!has(table, 4) && CALL(size)(table) == KEYS - 1);
    CHECK(insert(other, 1) == 1 && insert(other, 100) == 1);
    CALL(merge)(table, other);
    CHECK(has(table, 100) && CALL(size)(table) == KEYS && CALL(size)(other) == 2);
    CALL(assign)(other, table);
    CHECK(CALL(size)(other) == KEYS && has(other, 100));
    CALL(clear)(table);
    CHECK(CALL(empty)(table) && walk(table, &sum) == 0);
    CALL(move)(table, other);
    CHECK(CALL(empty)(other) && CALL(size)(table) == KEYS);
    CALL(swap)(table, other);
    CHECK(CALL(empty)(table) && has(other, 100));
    CALL(destroy)(table);
    CALL(destroy)(other);
}

/* The part on this rank. */
static void check_local(void)
{
    int me = acp_rank();
    table_t table = create(me), other = create(me);
    table_it_t it;
    size_t here = 0;
    uint64_t key;
    for (key = 0; key < KEYS; key++)
        insert(table, key);
    for (it = CALL(begin_local)(table); it.rank == me && it.elem != CALL(end_local)(table).elem;
         it = CALL_IT(increment)(it)) {
        CHECK(acp_query_rank(it.elem) == me);
        here++;
    }
    CHECK(CALL(size_local)(table) == here && CALL(empty_local)(table) == (here == 0));
    CALL(merge_local)(other, table);
    CHECK(CALL(size)(other) == here && CALL(size)(table) == KEYS);
    CALL(assign_local)(other, table);
    CHECK(CALL(size_local)(other) == here);
    CALL(clear_local)(other);
    CHECK(CALL(size)(other) == 0);
    CALL(move_local)(other, table);
    CHECK(CALL(size)(other) == here && CALL(size)(table) == KEYS - here);
    CALL(destroy)(table);
    CALL(destroy)(other);
}

/* A table that all ranks use. */
static table_t share(void)
{
    table_t table;
    uint64_t all[64];
    memset(&table, 0, sizeof table);
    if (acp_rank() == 0)
        table = create(0);
    exchange(table.ga, all);
    table.ga = all[0];
    table.num_ranks = (uint64_t)acp_procs();
    table.num_slots = SLOTS;
    return table;
}

static void start(int *argc, char ***argv)
{
    int rank;
    CHECK(acp_init(argc, argv) == 0);
    for (rank = 0; rank < acp_procs(); rank++)
        all_ranks[rank] = rank;
    check_alone();
    check_local();
    acp_sync();
    CHECK(CALL(create)(0, all_ranks, 8, 0).ga == ACP_GA_NULL);
}

#endif
