/* Legal but odd: calls before init and after finalize, containers and iterators that are nothing, ranks that are none, nothing to copy,
   and a comparison that itself uses the library. None of it crashes, and each call gives the value that stands for failure. */
#include "data.h"

static int compare(const acp_element_t one, const acp_element_t two)
{
    uint64_t first = load(one.ga), second = load(two.ga);
    return first < second ? -1 : first > second;
}

static void check_no_world(void)
{
    CHECK(acp_query_rank(ACP_GA_NULL) == -1 && acp_query_color(ACP_GA_NULL) == -1);
    CHECK(acp_malloc(8, 0) == ACP_GA_NULL && acp_query_starter_ga(0) == ACP_GA_NULL);
    CHECK(acp_copy(8, 8, 0, (acp_handle_t)ACP_HANDLE_NULL) == (acp_handle_t)ACP_HANDLE_NULL);
    CHECK(acp_create_vector(8, 0).ga == ACP_GA_NULL && acp_create_list(0).ga == ACP_GA_NULL);
    acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    acp_free(ACP_GA_NULL);
}

static void check_handles(void)
{
    acp_ga_t here = word_ga(acp_rank(), 0);
    acp_handle_t first, second, third;
    acp_complete((acp_handle_t)ACP_HANDLE_NULL);
    acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    acp_complete((acp_handle_t)ACP_HANDLE_CONT);
    acp_complete(1000000);
    acp_complete(-77);
    CHECK(acp_inquire((acp_handle_t)ACP_HANDLE_NULL) == 0 && acp_inquire((acp_handle_t)ACP_HANDLE_ALL) == 0);
    first = acp_copy(ACP_GA_NULL, ACP_GA_NULL, 0, (acp_handle_t)ACP_HANDLE_NULL);
    second = acp_copy(here + 8, here, 8, (acp_handle_t)ACP_HANDLE_ALL);
    third = acp_copy(here + 16, here, 8, (acp_handle_t)ACP_HANDLE_CONT);
    CHECK(first > 0 && second == first + 1 && third == first + 2);
    acp_complete(third);
    acp_complete(first);
    CHECK(acp_inquire(first) == 0 && acp_inquire(third) == 0);
    CHECK(acp_copy(ACP_GA_NULL, here, 8, third) == (acp_handle_t)ACP_HANDLE_NULL);
    CHECK(acp_add4(ACP_GA_NULL, here, 1, third) == (acp_handle_t)ACP_HANDLE_NULL);
    acp_complete((acp_handle_t)ACP_HANDLE_ALL);
}

static void check_memory(void)
{
    static char block[256];
    acp_atkey_t key = acp_register_memory(block, sizeof block, 0), again = acp_register_memory(block, 8, 0);
    CHECK(key != ACP_ATKEY_NULL && again != ACP_ATKEY_NULL && acp_unregister_memory(again) == 0);
    CHECK(acp_query_ga(key, block + 255) == acp_query_ga(key, block) + 255);
    CHECK(acp_query_ga(key, block - 1) == ACP_GA_NULL && acp_query_ga(ACP_ATKEY_NULL, block) == ACP_GA_NULL);
    CHECK(acp_register_memory(block, 8, -1) == ACP_ATKEY_NULL && acp_register_memory(block, 8, 1000) == ACP_ATKEY_NULL);
    CHECK(acp_register_memory(NULL, 8, 0) == ACP_ATKEY_NULL && acp_unregister_memory(ACP_ATKEY_NULL) != 0);
    CHECK(acp_unregister_memory(key) == 0 && acp_unregister_memory(key) != 0);
    CHECK(acp_query_starter_ga(-1) == ACP_GA_NULL && acp_query_starter_ga(acp_procs()) == ACP_GA_NULL);
    CHECK(acp_query_address(ACP_GA_NULL) == NULL);
}

static void check_nothing(void)
{
    acp_vector_t vector;
    acp_deque_t deque;
    acp_list_it_t place;
    acp_map_t map;
    acp_pair_t pair;
    memset(&vector, 0, sizeof vector);
    memset(&deque, 0, sizeof deque);
    memset(&place, 0, sizeof place);
    memset(&map, 0, sizeof map);
    pair.first = pair.second = number(1, 0);
    CHECK(acp_size_vector(vector) == 0 && acp_at_vector(vector, 0) == ACP_GA_NULL);
    acp_push_back_vector(vector, bytes_of(1, 8), 8);
    acp_clear_vector(vector);
    acp_destroy_vector(vector);
    CHECK(acp_dereference_vector_it(acp_begin_vector(vector)) == ACP_GA_NULL);
    CHECK(acp_size_deque(deque) == 0 && acp_dereference_deque_it(acp_begin_deque(deque), 8).first.size == 0);
    CHECK(acp_dereference_list_it(place).size == 0 && acp_increment_list_it(place).elem == place.list.ga);
    acp_erase_list(place);
    acp_pop_back_list(place.list);
    CHECK(acp_size_map(map) == 0 && acp_insert_map(map, pair) == 0 && acp_retrieve_map(map, pair) == 0);
    CHECK(acp_find_map(map, pair.first).elem == 0);
    acp_destroy_map(map);
}

static void check_ranks(void)
{
    int ranks[2] = {0, 0}, none = acp_procs();
    CHECK(acp_create_vector(8, -1).ga == ACP_GA_NULL && acp_create_vector(8, none).ga == ACP_GA_NULL);
    CHECK(acp_create_deque(8, -1).ga == ACP_GA_NULL && acp_create_list(none).ga == ACP_GA_NULL);
    CHECK(acp_create_map(-1, ranks, 4, 0).ga == ACP_GA_NULL && acp_create_map(1, NULL, 4, 0).ga == ACP_GA_NULL);
    CHECK(acp_create_set(1, ranks, 0, 0).ga == ACP_GA_NULL && acp_create_multiset(1, ranks, 4, none).ga == ACP_GA_NULL);
}

static void check_lists(void)
{
    acp_list_t list = acp_create_list(acp_procs() - 1);
    acp_list_it_t it;
    uint64_t value, last = 0;
    for (value = 10; value > 0; value--)
        acp_push_back_list(list, number(value * 7 % 11, 0), (int)value % acp_procs());
    acp_sort_list(list, compare);
    for (it = acp_begin_list(list); it.elem != acp_end_list(list).elem; it = acp_increment_list_it(it)) {
        CHECK(load(acp_dereference_list_it(it).ga) > last);
        last = load(acp_dereference_list_it(it).ga);
    }
    CHECK(last == 10 && acp_size_list(list) == 10);
    acp_sort_list(list, NULL);
    acp_destroy_list(list);
}

int main(int argc, char **argv)
{
    check_no_world();
    CHECK(acp_init(&argc, &argv) == 0);
    check_handles();
    check_memory();
    check_nothing();
    check_ranks();
    check_lists();
    CHECK(acp_finalize() == 0);
    check_no_world();
    return 0;
}
