/* What no program should do, and some do: lengths that no memory has, an element that is erased twice, an iterator whose element
   is gone, a workspace after its end. The call says so and gives the value that stands for failure; what was there stays as it
   was, and the program goes on. */
#include "data.h"

static const size_t LENGTHS[] = {(size_t)1 << 40, (size_t)1 << 45, (size_t)1 << 62, ~(size_t)0};
enum { COUNT = sizeof LENGTHS / sizeof LENGTHS[0] };

static void check_tables(void)
{
    int i, rank = acp_procs() - 1;
    acp_map_t map = acp_create_map(1, &rank, 4, 0);
    acp_set_t set = acp_create_set(1, &rank, 4, 0);
    acp_multiset_t multiset = acp_create_multiset(1, &rank, 4, 0);
    acp_pair_t pair;
    pair.first = number(1, 0);
    pair.second = number(77, 1);
    CHECK(acp_insert_map(map, pair) == 1);
    for (i = 0; i < COUNT; i++) {
        acp_element_t key = number(2, 0);
        key.size = LENGTHS[i];
        CHECK(acp_insert_set(set, key) == 0 && acp_insert_multiset(multiset, key) == 0);
        CHECK(acp_find_set(set, key).elem == 0 && acp_retrieve_multiset(multiset, key) == 0);
        acp_remove_set(set, key);
        acp_remove_all_multiset(multiset, key);
        pair.first = key;
        pair.second = number(3, 1);
        CHECK(acp_insert_map(map, pair) == 0 && acp_retrieve_map(map, pair) == 0);
        acp_remove_map(map, key);
        pair.first = number(4, 0);
        pair.second.size = LENGTHS[i];
        CHECK(acp_insert_map(map, pair) == 0);
        /* A place that is said to be longer than it can be: the value fits. */
        pair.first = number(1, 0);
        CHECK(acp_retrieve_map(map, pair) == 8 && load(pair.second.ga) == 77);
    }
    CHECK(acp_size_map(map) == 1 && acp_empty_set(set) && acp_empty_multiset(multiset));
    /* Nobody makes a new table meanwhile: it could get the place of one that is gone, and be there for its handle. */
    acp_sync();
    acp_destroy_map(map);
    acp_destroy_set(set);
    acp_destroy_multiset(multiset);
    acp_destroy_map(map);
    CHECK(acp_size_map(map) == 0 && acp_begin_set(set).rank == 1 && acp_insert_multiset(multiset, number(1, 0)) == 0);
    acp_sync();
}

static void check_sequences(void)
{
    int i, rank = acp_procs() - 1;
    acp_vector_t vector = acp_create_vector(16, rank);
    acp_deque_t deque = acp_create_deque(16, rank);
    acp_push_back_deque(deque, bytes_of(1, 8), 8);
    for (i = 0; i < COUNT; i++) {
        CHECK(acp_create_vector(LENGTHS[i], rank).ga == ACP_GA_NULL);
        CHECK(acp_create_deque(LENGTHS[i], rank).ga == ACP_GA_NULL);
        CHECK(acp_malloc(LENGTHS[i], rank) == ACP_GA_NULL);
        acp_push_back_vector(vector, bytes_of(1, 8), LENGTHS[i]);
        acp_insert_vector(acp_begin_vector(vector), bytes_of(1, 8), LENGTHS[i]);
        acp_reserve_vector(vector, LENGTHS[i]);
        acp_push_front_deque(deque, bytes_of(1, 8), LENGTHS[i]);
        acp_insert_deque(acp_end_deque(deque), bytes_of(1, 8), LENGTHS[i]);
        acp_reserve_deque(deque, LENGTHS[i]);
        CHECK(acp_dereference_deque_it(acp_begin_deque(deque), LENGTHS[i]).first.size == 8);
        CHECK(acp_size_vector(vector) == 16 && acp_size_deque(deque) == 8);
    }
    acp_erase_vector(acp_begin_vector(vector), ~(size_t)0);
    acp_pop_front_deque(deque, ~(size_t)0);
    CHECK(acp_empty_vector(vector) && acp_empty_deque(deque));
    acp_destroy_vector(vector);
    acp_destroy_deque(deque);
}

/* Of a list of three the second is erased, and is then used once more. */
static void check_list(acp_list_t list, int rank)
{
    acp_list_it_t first, gone;
    acp_element_t element = number(1, 0);
    int i;
    acp_push_back_list(list, number(1, 0), acp_rank());
    acp_push_back_list(list, number(2, 0), rank);
    acp_push_back_list(list, number(3, 0), acp_rank());
    for (i = 0; i < COUNT; i++) {
        element.size = LENGTHS[i];
        acp_push_back_list(list, element, rank);
        CHECK(acp_insert_list(acp_begin_list(list), element, rank).elem == 0);
        acp_remove_list(list, element);
    }
    first = acp_begin_list(list);
    gone = acp_increment_list_it(first);
    CHECK(acp_erase_list(gone).elem == acp_advance_list_it(first, 1).elem && acp_size_list(list) == 2);
    CHECK(acp_erase_list(gone).elem == list.ga && acp_size_list(list) == 2);
    CHECK(acp_insert_list(gone, number(9, 0), rank).elem == 0 && acp_size_list(list) == 2);
    CHECK(load(acp_dereference_list_it(first).ga) == 1);
    CHECK(load(acp_dereference_list_it(acp_increment_list_it(first)).ga) == 3);
    acp_destroy_list(list);
    acp_destroy_list(list);
    CHECK(acp_size_list(list) == 0);
}

/* Header and elements here and elsewhere; one rank after the other, so that nobody takes the memory of what is gone. */
static void check_lists(void)
{
    int turn, header, rank, ranks = acp_procs();
    for (turn = 0; turn < ranks; turn++) {
        for (header = 0; turn == acp_rank() && header < ranks; header++)
            for (rank = 0; rank < ranks; rank++)
                check_list(acp_create_list(header), rank);
        acp_sync();
    }
}

static void check_workspaces(acp_wsd_t of_old_world)
{
    acp_wsd_t workspace = acp_create_ws(100);
    CHECK(workspace != ACP_WSD_NULL);
    CHECK(acp_write_ws(workspace, bytes_of(1, 8), 8, 93) == 1 && acp_write_ws(workspace, bytes_of(1, 8), 8, 92) == 0);
    CHECK(acp_read_ws(workspace, bytes_of(1, 8), ~(size_t)0, 8) == 1 && acp_read_ws(workspace, bytes_of(1, 8), 8, ~(size_t)0) == 1);
    acp_destroy_ws(workspace);
    CHECK(acp_read_ws(workspace, bytes_of(1, 8), 8, 0) == 1 && acp_write_ws(workspace, bytes_of(1, 8), 8, 0) == 1);
    acp_destroy_ws(workspace);
    acp_free_ws(workspace);
    acp_destroy_ws(ACP_WSD_NULL);
    CHECK(acp_read_ws(ACP_WSD_NULL, bytes_of(1, 8), 8, 0) == 1 && acp_read_ws(NULL, bytes_of(1, 8), 8, 0) == 1);
    CHECK(acp_write_ws(of_old_world, bytes_of(1, 8), 8, 0) == 1);
}

int main(int argc, char **argv)
{
    acp_wsd_t workspace;
    CHECK(acp_init(&argc, &argv) == 0);
    workspace = acp_create_ws(64);
    CHECK(workspace != ACP_WSD_NULL);
    CHECK(acp_finalize() == 0);
    CHECK(acp_init(&argc, &argv) == 0);
    check_tables();
    check_sequences();
    check_lists();
    check_workspaces(workspace);
    CHECK(acp_finalize() == 0);
    return 0;
}
