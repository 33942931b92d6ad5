/* Every function of vectors, on every rank. */
#include "data.h"

/* The vector holds these bytes. */
static void holds(acp_vector_t vector, const char *bytes)
{
    size_t i, size = strlen(bytes);
    CHECK(acp_size_vector(vector) == size);
    CHECK(acp_empty_vector(vector) == (size == 0));
    CHECK(acp_capacity_vector(vector) >= size && acp_capacity_vector(vector) % 8 == 0);
    for (i = 0; i < size; i++) {
        acp_vector_it_t it = acp_advance_vector_it(acp_begin_vector(vector), (int)i);
        CHECK(acp_dereference_vector_it(it) == acp_at_vector(vector, (int)i));
        copy_now(word_ga(acp_rank(), 99), acp_at_vector(vector, (int)i), 1);
        CHECK(*(volatile char *)my_word(99) == bytes[i]);
    }
    CHECK(acp_distance_vector_it(acp_begin_vector(vector), acp_end_vector(vector)) == (int)size);
    CHECK(load(vector.ga + 8) == size && load(vector.ga + 16) == acp_capacity_vector(vector));
    CHECK(size == 0 || load(vector.ga) == acp_at_vector(vector, 0));
}

static void check_on(int rank)
{
    acp_vector_t one = acp_create_vector(0, rank), other = acp_create_vector(20, rank), third;
    acp_vector_it_t it, end;
    int i;
    CHECK(one.ga != ACP_GA_NULL && other.ga != ACP_GA_NULL);
    CHECK(acp_query_rank(one.ga) == rank);
    CHECK(acp_size_vector(other) == 20 && acp_capacity_vector(other) >= 20);
    CHECK(acp_query_rank(acp_at_vector(other, 0)) == rank);
    acp_clear_vector(other);
    holds(other, "");
    holds(one, "");
    acp_push_back_vector(one, bytes_of('a', 2), 2);
    acp_push_back_vector(one, bytes_of('b', 3), 3);
    holds(one, "aabbb");
    it = acp_insert_vector(acp_advance_vector_it(acp_begin_vector(one), 2), bytes_of('c', 2), 2);
    CHECK(it.index == 2 && it.vector.ga == one.ga);
    holds(one, "aaccbbb");
    it = acp_insert_vector(acp_end_vector(one), bytes_of('d', 1), 1);
    CHECK(it.index == 7);
    it = acp_insert_vector(acp_begin_vector(one), bytes_of('e', 1), 1);
    CHECK(it.index == 0);
    holds(one, "eaaccbbbd");
    it = acp_erase_vector(acp_advance_vector_it(acp_begin_vector(one), 1), 2);
    CHECK(it.index == 1);
    holds(one, "eccbbbd");
    acp_assign_vector(other, one);
    holds(other, "eccbbbd");
    end = acp_advance_vector_it(acp_end_vector(other), -1);
    it = acp_erase_range_vector(acp_advance_vector_it(acp_begin_vector(other), 3), end);
    CHECK(it.index == 3);
    holds(other, "eccd");
    acp_assign_range_vector(other, acp_advance_vector_it(acp_begin_vector(one), 1),
        acp_advance_vector_it(acp_begin_vector(one), 4));
    holds(other, "ccb");
    it = acp_insert_range_vector(acp_advance_vector_it(acp_begin_vector(other), 1), acp_begin_vector(one),
        acp_advance_vector_it(acp_begin_vector(one), 2));
    CHECK(it.index == 1);
    holds(other, "ceccb");
    acp_pop_back_vector(other, 2);
    holds(other, "cec");
    acp_swap_vector(one, other);
    holds(one, "cec");
    holds(other, "eccbbbd");
    acp_reserve_vector(one, 100);
    CHECK(acp_capacity_vector(one) >= 100);
    holds(one, "cec");
    /* Many small steps, and a copy on another rank. */
    acp_clear_vector(one);
    for (i = 0; i < 500; i++)
        acp_push_back_vector(one, number((uint64_t)i * 3, 0).ga, 8);
    third = acp_create_vector(0, (rank + 1) % acp_procs());
    acp_assign_vector(third, one);
    CHECK(acp_size_vector(third) == 4000);
    for (i = 0; i < 500; i += 37)
        CHECK(load(acp_at_vector(third, 8 * i)) == (uint64_t)i * 3);
    acp_pop_back_vector(third, 4000);
    CHECK(acp_empty_vector(third));
    acp_destroy_vector(one);
    acp_destroy_vector(other);
    acp_destroy_vector(third);
}

int main(int argc, char **argv)
{
    int rank;
    CHECK(acp_init(&argc, &argv) == 0);
    for (rank = 0; rank < acp_procs(); rank++)
        check_on(rank);
    CHECK(acp_create_vector(8, -1).ga == ACP_GA_NULL);
    acp_sync();
    CHECK(acp_finalize() == 0);
    return 0;
}
