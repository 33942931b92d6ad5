/* Every function of deques, on every rank, with contents that wrap round. */
#include "data.h"

static char byte_at(acp_ga_t ga)
{
    copy_now(word_ga(acp_rank(), 99), ga, 1);
    return *(volatile char *)my_word(99);
}

/* The deque holds these bytes, one by one and as two pieces. */
static void holds(acp_deque_t deque, const char *bytes)
{
    size_t i, size = strlen(bytes);
    acp_pair_t pieces;
    CHECK(acp_size_deque(deque) == size);
    CHECK(acp_empty_deque(deque) == (size == 0));
    CHECK(acp_capacity_deque(deque) >= size);
    for (i = 0; i < size; i++) {
        acp_deque_it_t it = acp_advance_deque_it(acp_begin_deque(deque), (int)i);
        CHECK(byte_at(acp_at_deque(deque, (int)i)) == bytes[i]);
        CHECK(acp_dereference_deque_it(it, 1).first.ga == acp_at_deque(deque, (int)i));
    }
    CHECK(acp_distance_deque_it(acp_begin_deque(deque), acp_end_deque(deque)) == (int)size);
    CHECK(load(deque.ga + 16) == size && load(deque.ga + 24) == acp_capacity_deque(deque));
    CHECK(load(deque.ga + 8) < load(deque.ga + 24) || load(deque.ga + 8) == 0);
    if (size == 0)
        return;
    pieces = acp_dereference_deque_it(acp_begin_deque(deque), size);
    CHECK(pieces.first.size + pieces.second.size == size);
    CHECK((pieces.second.size == 0) == (pieces.second.ga == ACP_GA_NULL));
    for (i = 0; i < size; i++) {
        size_t first = pieces.first.size;
        CHECK(byte_at(i < first ? pieces.first.ga + i : pieces.second.ga + (i - first)) == bytes[i]);
    }
}

static void check_on(int rank)
{
    acp_deque_t one = acp_create_deque(10, rank), other = acp_create_deque(0, rank);
    acp_deque_it_t it;
    int i;
    CHECK(one.ga != ACP_GA_NULL && other.ga != ACP_GA_NULL && acp_query_rank(one.ga) == rank);
    CHECK(acp_capacity_deque(one) >= 10);
    holds(one, "");
    holds(other, "");
    acp_push_back_deque(one, bytes_of('a', 6), 6);
    acp_pop_front_deque(one, 4);
    acp_push_back_deque(one, bytes_of('b', 6), 6);
    holds(one, "aabbbbbb");
    acp_push_front_deque(one, bytes_of('c', 2), 2);
    holds(one, "ccaabbbbbb");
    acp_push_front_deque(one, bytes_of('d', 3), 3);
    acp_push_back_deque(one, bytes_of('e', 1), 1);
    holds(one, "dddccaabbbbbbe");
    acp_pop_back_deque(one, 4);
    acp_pop_front_deque(one, 1);
    holds(one, "ddccaabbb");
    it = acp_insert_deque(acp_advance_deque_it(acp_begin_deque(one), 4), bytes_of('f', 2), 2);
    CHECK(it.index == 4 && it.deque.ga == one.ga);
    holds(one, "ddccffaabbb");
    it = acp_erase_deque(acp_advance_deque_it(acp_begin_deque(one), 1), 2);
    CHECK(it.index == 1);
    holds(one, "dcffaabbb");
    acp_assign_deque(other, one);
    holds(other, "dcffaabbb");
    it = acp_erase_range_deque(acp_advance_deque_it(acp_begin_deque(other), 2),
        acp_advance_deque_it(acp_begin_deque(other), 6));
    CHECK(it.index == 2);
    holds(other, "dcbbb");
    it = acp_insert_range_deque(acp_advance_deque_it(acp_begin_deque(other), 1),
        acp_advance_deque_it(acp_begin_deque(one), 1), acp_advance_deque_it(acp_begin_deque(one), 5));
    CHECK(it.index == 1);
    holds(other, "dcffacbbb");
    acp_assign_range_deque(other, acp_advance_deque_it(acp_begin_deque(one), 3), acp_end_deque(one));
    holds(other, "faabbb");
    acp_swap_deque(one, other);
    holds(one, "faabbb");
    holds(other, "dcffaabbb");
    acp_reserve_deque(one, 104);
    CHECK(acp_capacity_deque(one) == 104);
    holds(one, "faabbb");
    acp_clear_deque(one);
    holds(one, "");
    /* A queue that goes round many times. */
    for (i = 0; i < 100; i++) {
        acp_push_back_deque(one, number((uint64_t)i, 0).ga, 8);
        if (i >= 5) {
            CHECK(load(acp_at_deque(one, 0)) == (uint64_t)(i - 5));
            acp_pop_front_deque(one, 8);
        }
    }
    CHECK(acp_size_deque(one) == 40);
    /* One that is filled again when it is empty, at either end: its first byte lies where the header says. */
    acp_clear_deque(one);
    for (i = 0; i < 300; i++) {
        size_t bytes = (size_t)(i * 37 % 41 + 1);
        (i % 3 == 0 ? acp_push_front_deque : acp_push_back_deque)(one, bytes_of('a', bytes), bytes);
        CHECK(load(one.ga + 8) < load(one.ga + 24));
        CHECK(acp_at_deque(one, 0) == load(one.ga) + load(one.ga + 8));
        acp_pop_front_deque(one, bytes / 2);
        acp_pop_front_deque(one, bytes - bytes / 2);
        CHECK(load(one.ga + 8) < load(one.ga + 24) && acp_empty_deque(one));
    }
    acp_destroy_deque(one);
    /* Filled exactly, some way into its block. */
    one = acp_create_deque(0, rank);
    acp_push_back_deque(one, bytes_of('a', 10), 10);
    for (i = 0; i < 3; i++) {
        acp_pop_front_deque(one, 5);
        acp_pop_front_deque(one, 5);
        acp_push_back_deque(one, bytes_of('b', 10), 10);
        holds(one, "bbbbbbbbbb");
    }
    acp_pop_back_deque(one, 10);
    acp_push_back_deque(one, bytes_of('c', 10), 10);
    holds(one, "cccccccccc");
    acp_destroy_deque(one);
    acp_destroy_deque(other);
}

int main(int argc, char **argv)
{
    int rank;
    CHECK(acp_init(&argc, &argv) == 0);
    for (rank = 0; rank < acp_procs(); rank++)
        check_on(rank);
    CHECK(acp_create_deque(8, acp_procs()).ga == ACP_GA_NULL);
    acp_sync();
    CHECK(acp_finalize() == 0);
    return 0;
}
