/* The headers in every C and C++ that compilers speak, included twice, and every macro for containers. */
#include <acp.h>
#include <kumiki.h>
#include <waitio_mpi.h>
#include <xmp.h>
#include <kumiki_xmp.h>
#include <acp.h>
#include <kumiki.h>
#include <waitio.h>
#include <waitio_mpi.h>
#include <xmp.h>
#include <kumiki_xmp.h>

static acp_ga_t null_address = ACP_GA_NULL;
static acp_atkey_t null_key = ACP_ATKEY_NULL;

/* Never called: it is enough that it compiles. */
int use_macros(acp_vector_t v, acp_deque_t d, acp_list_t l, acp_map_t m, acp_set_t s, acp_multiset_t b, acp_pair_t pair);

int use_macros(acp_vector_t v, acp_deque_t d, acp_list_t l, acp_map_t m, acp_set_t s, acp_multiset_t b, acp_pair_t pair)
{
    acp_vector_it_t vi = acp_begin(vector, v);
    acp_deque_it_t di = acp_end(deque, d);
    acp_list_it_t li = acp_begin(list, l);
    acp_map_it_t mi = acp_find(map, m, pair.first);
    acp_set_it_t si = acp_begin(local_set, s);
    acp_multiset_it_t bi = acp_begin(multiset, b);
    acp_wsd_t none = ACP_WSD_NULL;
    acp_handle_t all = (acp_handle_t)ACP_HANDLE_ALL, cont = (acp_handle_t)ACP_HANDLE_CONT;
    int count = 0;
    vi = acp_advance(vector_it, vi, 8);
    vi = acp_insert(vector, vi, acp_at(vector, v, 0), 8);
    vi = acp_erase_range(vector, vi, vi);
    acp_assign_range(vector, v, vi, vi);
    vi = acp_insert_range(vector, vi, vi, vi);
    acp_push_back(vector, v, acp_dereference(vector_it, vi), 8);
    acp_reserve(vector, v, acp_capacity(vector, v));
    di = acp_erase(deque, di, 8);
    acp_push_front(deque, d, acp_dereference(deque_it, di, 8).first.ga, 8);
    acp_pop_front(deque, d, 8);
    acp_pop_back(deque, d, 8);
    li = acp_increment(list_it, acp_decrement(list_it, li));
    acp_sort(list, l, 0);
    acp_unique(list, l);
    acp_reverse(list, l);
    acp_remove(list, l, acp_dereference(list_it, li));
    acp_splice(list, li, li);
    acp_merge(list, l, l, 0);
    mi = acp_increment(map_it, mi);
    count += acp_insert(map, m, pair) + acp_insert(set, s, pair.second) + acp_insert(multiset, b, pair.first);
    count += (int)acp_size(map, m) + acp_empty(set, s) + acp_distance(list_it, li, li);
    acp_clear(map, m);
    acp_swap(set, s, s);
    acp_assign(multiset, b, b);
    acp_destroy(multiset, b);
    m = acp_create(map, 1, &count, 10, 0);
    si = acp_increment(set_it, si);
    bi = acp_increment(multiset_it, bi);
    return count + (none == ACP_WSD_NULL) + (all == cont) + (null_address == null_key) + mi.rank + si.slot + bi.rank +
        KUMIKI_SUCCESS + (int)KUMIKI_ORDER_NONE + (int)KUMIKI_NULL;
}

int main(void)
{
    return 0;
}
