/* Every function of lists, with elements on all ranks. */
#include "data.h"

static acp_list_t of(const char *digits, int rank)
{
    acp_list_t list = acp_create_list(rank);
    CHECK(list.ga != ACP_GA_NULL && acp_query_rank(list.ga) == rank);
    for (; *digits; digits++)
        acp_push_back_list(list, number((uint64_t)(*digits - '0'), 0), *digits % acp_procs());
    return list;
}

/* The list holds these digits, forwards, backwards, and as its words say. */
static void holds(acp_list_t list, const char *digits)
{
    size_t count = strlen(digits), i;
    acp_list_it_t it = acp_begin_list(list), end = acp_end_list(list);
    CHECK(acp_size_list(list) == count && acp_empty_list(list) == (count == 0));
    CHECK(end.elem == list.ga && end.list.ga == list.ga && load(list.ga + 16) == count);
    CHECK(acp_distance_list_it(it, end) == (int)count);
    for (i = 0; i < count; i++) {
        acp_element_t element = acp_dereference_list_it(it);
        CHECK(it.elem != list.ga && element.size == 8 && element.ga == it.elem + 24);
        CHECK(load(element.ga) == (uint64_t)(digits[i] - '0') && load(it.elem + 16) == 8);
        it = acp_increment_list_it(it);
    }
    CHECK(it.elem == list.ga);
    if (count > 0)
        CHECK(load(list.ga) == acp_begin_list(list).elem && load(load(list.ga + 8)) == list.ga);
    for (i = count; i > 0; i--) {
        it = acp_decrement_list_it(it);
        CHECK(load(acp_dereference_list_it(it).ga) == (uint64_t)(digits[i - 1] - '0'));
    }
    CHECK(it.elem == acp_begin_list(list).elem);
}

static acp_list_it_t at(acp_list_t list, int index)
{
    return acp_advance_list_it(acp_begin_list(list), index);
}

/* Calls the library from within the library. */
static int ascending(const acp_element_t one, const acp_element_t other)
{
    uint64_t a = load(one.ga), b = load(other.ga);
    return a < b ? -1 : a > b;
}

static int descending(const acp_element_t one, const acp_element_t other)
{
    return ascending(other, one);
}

static void check_on(int rank)
{
    acp_list_t one = of("123", rank), other = of("", rank), third;
    acp_list_it_t it;
    holds(one, "123");
    holds(other, "");
    CHECK(acp_query_rank(acp_begin_list(one).elem) == '1' % acp_procs());
    acp_push_front_list(one, number(4, 0), rank);
    holds(one, "4123");
    it = acp_insert_list(at(one, 2), number(5, 0), (rank + 1) % acp_procs());
    CHECK(load(acp_dereference_list_it(it).ga) == 5 && acp_query_rank(it.elem) == (rank + 1) % acp_procs());
    holds(one, "41523");
    it = acp_insert_list(acp_end_list(one), number(6, 0), 0);
    holds(one, "415236");
    it = acp_erase_list(at(one, 1));
    CHECK(load(acp_dereference_list_it(it).ga) == 5);
    it = acp_erase_list(at(one, 4));
    CHECK(it.elem == one.ga);
    holds(one, "4523");
    acp_assign_list(other, one);
    holds(other, "4523");
    it = acp_erase_range_list(at(other, 1), at(other, 3));
    CHECK(it.elem == at(other, 1).elem);
    holds(other, "43");
    acp_assign_range_list(other, at(one, 1), acp_end_list(one));
    holds(other, "523");
    it = acp_insert_range_list(at(other, 1), at(one, 0), at(one, 2));
    CHECK(it.elem == at(other, 1).elem);
    holds(other, "54523");
    acp_pop_back_list(other);
    acp_pop_front_list(other);
    holds(other, "452");
    acp_swap_list(one, other);
    holds(one, "452");
    holds(other, "4523");
    acp_reverse_list(other);
    holds(other, "3254");
    acp_clear_list(one);
    holds(one, "");
    /* Elements go from list to list where they are. */
    it = at(other, 1);
    acp_splice_list(acp_end_list(one), it);
    CHECK(acp_begin_list(one).elem == it.elem);
    holds(one, "2");
    holds(other, "354");
    acp_splice_range_list(acp_begin_list(one), at(other, 1), acp_end_list(other));
    holds(one, "542");
    holds(other, "3");
    acp_destroy_list(one);
    acp_destroy_list(other);
    one = of("1331222344", rank);
    acp_unique_list(one);
    holds(one, "131234");
    acp_remove_list(one, number(3, 0));
    holds(one, "1124");
    other = of("5934712680", rank);
    acp_sort_list(other, ascending);
    holds(other, "0123456789");
    acp_merge_list(one, other, ascending);
    holds(one, "01112234456789");
    holds(other, "");
    acp_sort_list(one, descending);
    holds(one, "98765443221110");
    third = of("77", (rank + 1) % acp_procs());
    acp_merge_list(third, one, descending);
    holds(third, "9877765443221110");
    acp_destroy_list(one);
    acp_destroy_list(other);
    acp_destroy_list(third);
}

int main(int argc, char **argv)
{
    int rank;
    CHECK(acp_init(&argc, &argv) == 0);
    for (rank = 0; rank < acp_procs(); rank++)
        check_on(rank);
    CHECK(acp_create_list(-1).ga == ACP_GA_NULL);
    acp_sync();
    CHECK(acp_finalize() == 0);
    return 0;
}
