/*
 * acp.h: the interface of ACP, the Advanced Communication Primitives, version 3.0.0, as Kumiki offers it.
 *
 * Compile with acpcc or acpc++, start with acprun. share/doc/kumiki/docs/c.md says what differs from the original library; kumiki.h has what
 * this interface lacks, such as error codes and deadlines.
 */
#ifndef ACP_H_INCLUDED
#define ACP_H_INCLUDED

/* Macros with any number of arguments and constants of type long long are younger than C90 and C++98, but the compilers that
 * still speak these know them. As a system header this file is not blamed for using them. */
#if defined(__GNUC__) && ((defined(__cplusplus) && __cplusplus < 201103L) || \
    (!defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)))
#pragma GCC system_header
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Start and end. acp_init takes every "--acp-NAME VALUE" out of the arguments and returns when all processes have come;
 * it may be called again after acp_finalize. acp_sync is a barrier and completes nothing. Functions that return int give 0 for
 * success and -1 for failure, and a line on standard error says why.
 */

int acp_init(int *argc, char ***argv);
int acp_finalize(void);
int acp_reset(int rank);
void acp_abort(const char *str);
int acp_sync(void);
int acp_rank(void);
int acp_procs(void);

/*
 * Global memory. Every process has starter memory, zero at the start; any other memory is registered. A global address
 * is a number, and base + offset is the address of a byte inside the block. acp_query_address gives a pointer for the caller's
 * own memory and NULL for that of others.
 */

#define ACP_ATKEY_NULL 0LLU
#define ACP_GA_NULL 0LLU
typedef uint64_t acp_atkey_t;
typedef uint64_t acp_ga_t;
acp_ga_t acp_query_starter_ga(int rank);
acp_atkey_t acp_register_memory(void *addr, size_t size, int color);
int acp_unregister_memory(acp_atkey_t atkey);
acp_ga_t acp_query_ga(acp_atkey_t atkey, void *addr);
void *acp_query_address(acp_ga_t ga);
int acp_query_rank(acp_ga_t ga);
int acp_query_color(acp_ga_t ga);
int acp_colors(void);

/*
 * Operations. Each returns a handle: 1, 2, 3 and so on, or ACP_HANDLE_NULL if it could not be started. It starts when all
 * handles up to "order" are complete; ACP_HANDLE_NULL: at once, ACP_HANDLE_ALL: when all earlier ones are, ACP_HANDLE_CONT: behind
 * the one before it. Atomics act on src and put the old value at dst. acp_complete waits for a handle and all before it;
 * acp_inquire gives 0 when they are complete and 1 when not.
 */

#define ACP_HANDLE_ALL 0xffffffffffffffffLLU
#define ACP_HANDLE_CONT 0xfffffffffffffffeLLU
#define ACP_HANDLE_NULL 0x0000000000000000LLU
typedef int64_t acp_handle_t;
acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order);
acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t oldval, uint32_t newval, acp_handle_t order);
acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t oldval, uint64_t newval, acp_handle_t order);
acp_handle_t acp_swap4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_swap8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_add4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_add8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_xor4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_xor8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_or4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_or8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_and4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_and8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
void acp_complete(acp_handle_t handle);
int acp_inquire(acp_handle_t handle);

/*
 * Channels: one sender, one receiver, messages in order. Both make their end, in any order, without waiting; several channels between
 * two ranks meet in the order in which they were made. A channel has at most eight requests that were not waited for: the next is NULL.
 * acp_wait_ch gives the bytes of a message that was received, 0 for what was sent or freed, SIZE_MAX if it failed. A message that is
 * longer than the buffer is cut, and said so on standard error. acp_waitall_ch gives 0, or -1 if one failed; sizes may be NULL.
 * acp_send_ch gives 0, acp_recv_ch the bytes of the message; both -1 if they failed.
 */

typedef struct chreqitem *acp_request_t;
typedef struct chitem *acp_ch_t;
typedef struct segbufitem *acp_segbuf_t;

/*
 * Segment buffers: two equal buffers, one on each rank, cut into segments that go from the source to the destination. Both ends are made
 * with the rank of the other; the memory is the library's until acp_free_segbuf. 0: yes, done; 1: no, not now; -1: that cannot be asked.
 * Source: acp_isready_segbuf, fill segment number tail, acp_ack_segbuf. Destination: acp_isacked_segbuf, read segment number head,
 * acp_ready_segbuf.
 */
acp_segbuf_t acp_create_src_segbuf(int dst_rank, void *buf, size_t segsize, size_t segnum);
acp_segbuf_t acp_create_dst_segbuf(int src_rank, void *buf, size_t segsize, size_t segnum);
int acp_connect_segbuf(acp_segbuf_t segbuf);
int acp_isconnected_segbuf(acp_segbuf_t segbuf);
int acp_ready_segbuf(acp_segbuf_t segbuf);
int acp_ack_segbuf(acp_segbuf_t segbuf);
int acp_isready_segbuf(acp_segbuf_t segbuf);
int acp_isacked_segbuf(acp_segbuf_t segbuf);
int64_t acp_query_segbuf_head(acp_segbuf_t segbuf);
int64_t acp_query_segbuf_tail(acp_segbuf_t segbuf);
int64_t acp_query_segbuf_sent(acp_segbuf_t segbuf);
int acp_disconnect_segbuf(acp_segbuf_t segbuf);
int acp_free_segbuf(acp_segbuf_t segbuf);
acp_ch_t acp_create_ch(int sender, int receiver);
int acp_free_ch(acp_ch_t ch);
acp_request_t acp_nbfree_ch(acp_ch_t ch);
acp_request_t acp_nbsend_ch(acp_ch_t ch, void *buf, size_t size);
acp_request_t acp_nbrecv_ch(acp_ch_t ch, void *buf, size_t size);
size_t acp_wait_ch(acp_request_t request);
int acp_waitall_ch(acp_request_t *request, int count, size_t *sizes);
int acp_send_ch(acp_ch_t ch, void *buf, size_t size);
int acp_recv_ch(acp_ch_t ch, void *buf, size_t size);

/*
 * Workspace: one block laid over all ranks in chunks, read and written by offset. Collective to create and destroy.
 */

typedef struct {
    size_t size_ws;
    size_t size_default;
    size_t size_remainder;
    size_t ngas;
    acp_atkey_t key_data;
    acp_ga_t ga_data;
    acp_atkey_t *keys;
    acp_ga_t *gas;
    int *procs;
    int *sizes;
    void *data;
} acp_wsditem;
typedef acp_wsditem *acp_wsd_t;
#define ACP_WSD_NULL (acp_wsd_t)(-1)
acp_wsd_t acp_create_ws(size_t size);
int acp_setparams_ws(size_t proc_start, size_t size_default);
void acp_destroy_ws(acp_wsd_t WSD);
void acp_free_ws(acp_wsd_t WSD);
int acp_read_ws(acp_wsd_t WSD, acp_ga_t ga, size_t size, size_t offset);
int acp_write_ws(acp_wsd_t WSD, const acp_ga_t ga, size_t size, size_t offset);

/*
 * Memory on any rank, from any rank.
 */

acp_ga_t acp_malloc(size_t size, int rank);
void acp_free(acp_ga_t ga);

/*
 * What goes into lists, sets and maps: a place in global memory and its length.
 */

typedef struct {
    acp_ga_t ga;
    size_t size;
} acp_element_t;
typedef struct {
    acp_element_t first;
    acp_element_t second;
} acp_pair_t;

/*
 * Vector: bytes in one piece on one rank. Iterators count bytes.
 */

typedef struct {
    acp_ga_t ga;
} acp_vector_t;
typedef struct {
    acp_vector_t vector;
    int index;
} acp_vector_it_t;
void acp_assign_vector(acp_vector_t vector1, acp_vector_t vector2);
void acp_assign_range_vector(acp_vector_t vector, acp_vector_it_t start, acp_vector_it_t end);
acp_ga_t acp_at_vector(acp_vector_t vector, int index);
acp_vector_it_t acp_begin_vector(acp_vector_t vector);
size_t acp_capacity_vector(acp_vector_t vector);
void acp_clear_vector(acp_vector_t vector);
acp_vector_t acp_create_vector(size_t size, int rank);
void acp_destroy_vector(acp_vector_t vector);
int acp_empty_vector(acp_vector_t vector);
acp_vector_it_t acp_end_vector(acp_vector_t vector);
acp_vector_it_t acp_erase_vector(acp_vector_it_t it, size_t size);
acp_vector_it_t acp_erase_range_vector(acp_vector_it_t start, acp_vector_it_t end);
acp_vector_it_t acp_insert_vector(acp_vector_it_t it, const acp_ga_t ga, size_t size);
acp_vector_it_t acp_insert_range_vector(acp_vector_it_t it, acp_vector_it_t start, acp_vector_it_t end);
void acp_pop_back_vector(acp_vector_t vector, size_t size);
void acp_push_back_vector(acp_vector_t vector, const acp_ga_t ga, size_t size);
void acp_reserve_vector(acp_vector_t vector, size_t size);
size_t acp_size_vector(acp_vector_t vector);
void acp_swap_vector(acp_vector_t vector1, acp_vector_t vector2);
acp_vector_it_t acp_advance_vector_it(acp_vector_it_t it, int n);
acp_ga_t acp_dereference_vector_it(acp_vector_it_t it);
int acp_distance_vector_it(acp_vector_it_t first, acp_vector_it_t last);

/*
 * Deque: a ring of bytes on one rank. What is dereferenced may wrap round, and is then two pieces.
 */

typedef struct {
    acp_ga_t ga;
} acp_deque_t;
typedef struct {
    acp_deque_t deque;
    int index;
} acp_deque_it_t;
void acp_assign_deque(acp_deque_t deque1, acp_deque_t deque2);
void acp_assign_range_deque(acp_deque_t deque, acp_deque_it_t start, acp_deque_it_t end);
acp_ga_t acp_at_deque(acp_deque_t deque, int index);
acp_deque_it_t acp_begin_deque(acp_deque_t deque);
size_t acp_capacity_deque(acp_deque_t deque);
void acp_clear_deque(acp_deque_t deque);
acp_deque_t acp_create_deque(size_t size, int rank);
void acp_destroy_deque(acp_deque_t deque);
int acp_empty_deque(acp_deque_t deque);
acp_deque_it_t acp_end_deque(acp_deque_t deque);
acp_deque_it_t acp_erase_deque(acp_deque_it_t it, size_t size);
acp_deque_it_t acp_erase_range_deque(acp_deque_it_t start, acp_deque_it_t end);
acp_deque_it_t acp_insert_deque(acp_deque_it_t it, const acp_ga_t ga, size_t size);
acp_deque_it_t acp_insert_range_deque(acp_deque_it_t it, acp_deque_it_t start, acp_deque_it_t end);
void acp_pop_back_deque(acp_deque_t deque, size_t size);
void acp_pop_front_deque(acp_deque_t deque, size_t size);
void acp_push_back_deque(acp_deque_t deque, const acp_ga_t ga, size_t size);
void acp_push_front_deque(acp_deque_t deque, const acp_ga_t ga, size_t size);
void acp_reserve_deque(acp_deque_t deque, size_t size);
size_t acp_size_deque(acp_deque_t deque);
void acp_swap_deque(acp_deque_t deque1, acp_deque_t deque2);
acp_deque_it_t acp_advance_deque_it(acp_deque_it_t it, int n);
acp_pair_t acp_dereference_deque_it(acp_deque_it_t it, size_t size);
int acp_distance_deque_it(acp_deque_it_t first, acp_deque_it_t last);

/*
 * List: each element on the rank that was given for it. At the end of a list elem == list.ga.
 */

typedef struct {
    acp_ga_t ga;
} acp_list_t;
typedef struct {
    acp_list_t list;
    acp_ga_t elem;
} acp_list_it_t;
void acp_assign_list(acp_list_t list1, acp_list_t list2);
void acp_assign_range_list(acp_list_t list, acp_list_it_t start, acp_list_it_t end);
acp_list_it_t acp_begin_list(acp_list_t list);
void acp_clear_list(acp_list_t list);
acp_list_t acp_create_list(int rank);
void acp_destroy_list(acp_list_t list);
int acp_empty_list(acp_list_t list);
acp_list_it_t acp_end_list(acp_list_t list);
acp_list_it_t acp_erase_list(acp_list_it_t it);
acp_list_it_t acp_erase_range_list(acp_list_it_t start, acp_list_it_t end);
acp_list_it_t acp_insert_list(acp_list_it_t it, const acp_element_t elem, int rank);
acp_list_it_t acp_insert_range_list(acp_list_it_t it, acp_list_it_t start, acp_list_it_t end);
void acp_merge_list(acp_list_t list1, acp_list_t list2, int (*comp)(const acp_element_t elem1,
    const acp_element_t elem2));
void acp_pop_back_list(acp_list_t list);
void acp_pop_front_list(acp_list_t list);
void acp_push_back_list(acp_list_t list, const acp_element_t elem, int rank);
void acp_push_front_list(acp_list_t list, const acp_element_t elem, int rank);
void acp_remove_list(acp_list_t list, const acp_element_t elem);
void acp_reverse_list(acp_list_t list);
size_t acp_size_list(acp_list_t list);
void acp_sort_list(acp_list_t list, int (*comp)(const acp_element_t elem1, const acp_element_t elem2));
void acp_splice_list(acp_list_it_t it1, acp_list_it_t it2);
void acp_splice_range_list(acp_list_it_t it, acp_list_it_t start, acp_list_it_t end);
void acp_swap_list(acp_list_t list1, acp_list_t list2);
void acp_unique_list(acp_list_t list);
acp_list_it_t acp_advance_list_it(acp_list_it_t it, int n);
acp_list_it_t acp_decrement_list_it(acp_list_it_t it);
acp_element_t acp_dereference_list_it(acp_list_it_t it);
int acp_distance_list_it(acp_list_it_t first, acp_list_it_t last);
acp_list_it_t acp_increment_list_it(acp_list_it_t it);

/*
 * Set: keys spread over the given ranks. After the last element rank == num_ranks, slot == 0 and elem == 0; so is the
 * iterator of a key that is not there. Functions with "local" act on the part of the caller's rank.
 */

typedef struct {
    acp_ga_t ga;
    uint64_t num_ranks;
    uint64_t num_slots;
} acp_set_t;
typedef struct {
    acp_set_t set;
    int rank;
    int slot;
    acp_ga_t elem;
} acp_set_it_t;
void acp_assign_local_set(acp_set_t set1, acp_set_t set2);
void acp_assign_set(acp_set_t set1, acp_set_t set2);
acp_set_it_t acp_begin_local_set(acp_set_t set);
acp_set_it_t acp_begin_set(acp_set_t set);
void acp_clear_set(acp_set_t set);
void acp_clear_local_set(acp_set_t set);
acp_set_t acp_create_set(int num_ranks, const int *ranks, int num_slots, int rank);
void acp_destroy_set(acp_set_t set);
int acp_empty_local_set(acp_set_t set);
int acp_empty_set(acp_set_t set);
acp_set_it_t acp_end_local_set(acp_set_t set);
acp_set_it_t acp_end_set(acp_set_t set);
acp_set_it_t acp_find_set(acp_set_t set, acp_element_t key);
int acp_insert_set(acp_set_t set, acp_element_t key);
void acp_merge_local_set(acp_set_t set1, acp_set_t set2);
void acp_merge_set(acp_set_t set1, acp_set_t set2);
void acp_move_local_set(acp_set_t set1, acp_set_t set2);
void acp_move_set(acp_set_t set1, acp_set_t set2);
void acp_remove_set(acp_set_t set, acp_element_t key);
size_t acp_size_local_set(acp_set_t set);
size_t acp_size_set(acp_set_t set);
void acp_swap_set(acp_set_t set1, acp_set_t set2);
acp_element_t acp_dereference_set_it(acp_set_it_t it);
acp_set_it_t acp_increment_set_it(acp_set_it_t it);

/*
 * Multiset: a set that counts how often each key was inserted.
 */

typedef struct {
    acp_ga_t ga;
    uint64_t num_ranks;
    uint64_t num_slots;
} acp_multiset_t;
typedef struct {
    acp_multiset_t set;
    int rank;
    int slot;
    acp_ga_t elem;
} acp_multiset_it_t;
void acp_assign_local_multiset(acp_multiset_t set1, acp_multiset_t set2);
void acp_assign_multiset(acp_multiset_t set1, acp_multiset_t set2);
acp_multiset_it_t acp_begin_local_multiset(acp_multiset_t set);
acp_multiset_it_t acp_begin_multiset(acp_multiset_t set);
void acp_clear_multiset(acp_multiset_t set);
void acp_clear_local_multiset(acp_multiset_t set);
acp_multiset_t acp_create_multiset(int num_ranks, const int *ranks, int num_slots, int rank);
void acp_destroy_multiset(acp_multiset_t set);
int acp_empty_local_multiset(acp_multiset_t set);
int acp_empty_multiset(acp_multiset_t set);
acp_multiset_it_t acp_end_local_multiset(acp_multiset_t set);
acp_multiset_it_t acp_end_multiset(acp_multiset_t set);
acp_multiset_it_t acp_find_multiset(acp_multiset_t set, acp_element_t key);
int acp_insert_multiset(acp_multiset_t set, acp_element_t key);
void acp_merge_local_multiset(acp_multiset_t set1, acp_multiset_t set2);
void acp_merge_multiset(acp_multiset_t set1, acp_multiset_t set2);
void acp_move_local_multiset(acp_multiset_t set1, acp_multiset_t set2);
void acp_move_multiset(acp_multiset_t set1, acp_multiset_t set2);
void acp_remove_multiset(acp_multiset_t set, acp_element_t key);
void acp_remove_all_multiset(acp_multiset_t set, acp_element_t key);
uint64_t acp_retrieve_multiset(acp_multiset_t set, acp_element_t key);
size_t acp_size_local_multiset(acp_multiset_t set);
size_t acp_size_multiset(acp_multiset_t set);
void acp_swap_multiset(acp_multiset_t set1, acp_multiset_t set2);
acp_element_t acp_dereference_multiset_it(acp_multiset_it_t it);
acp_multiset_it_t acp_increment_multiset_it(acp_multiset_it_t it);

/*
 * Map: keys with values. Inserting a key that is there keeps the old value.
 */

typedef struct {
    acp_ga_t ga;
    uint64_t num_ranks;
    uint64_t num_slots;
} acp_map_t;
typedef struct {
    acp_map_t map;
    int rank;
    int slot;
    acp_ga_t elem;
} acp_map_it_t;
typedef struct {
    acp_map_it_t it;
    int success;
} acp_map_ib_t;
void acp_assign_local_map(acp_map_t map1, acp_map_t map2);
void acp_assign_map(acp_map_t map1, acp_map_t map2);
acp_map_it_t acp_begin_local_map(acp_map_t map);
acp_map_it_t acp_begin_map(acp_map_t map);
void acp_clear_local_map(acp_map_t map);
void acp_clear_map(acp_map_t map);
acp_map_t acp_create_map(int num_ranks, const int *ranks, int num_slots, int rank);
void acp_destroy_map(acp_map_t map);
int acp_empty_local_map(acp_map_t map);
int acp_empty_map(acp_map_t map);
acp_map_it_t acp_end_local_map(acp_map_t map);
acp_map_it_t acp_end_map(acp_map_t map);
acp_map_it_t acp_find_map(acp_map_t map, acp_element_t key);
int acp_insert_map(acp_map_t map, acp_pair_t pair);
void acp_merge_local_map(acp_map_t map1, acp_map_t map2);
void acp_merge_map(acp_map_t map1, acp_map_t map2);
void acp_move_local_map(acp_map_t map1, acp_map_t map2);
void acp_move_map(acp_map_t map1, acp_map_t map2);
void acp_remove_map(acp_map_t map, acp_element_t key);
size_t acp_retrieve_map(acp_map_t map, acp_pair_t pair);
size_t acp_size_local_map(acp_map_t map);
size_t acp_size_map(acp_map_t map);
void acp_swap_map(acp_map_t map1, acp_map_t map2);
acp_pair_t acp_dereference_map_it(acp_map_it_t it);
acp_map_it_t acp_increment_map_it(acp_map_it_t it);

/*
 * Every container function by its operation and its container: acp_insert(map, m, pair) is acp_insert_map(m, pair),
 * and acp_advance(vector_it, it, 8) is acp_advance_vector_it(it, 8).
 */

#define acp_assign(type, ...) acp_assign_##type(__VA_ARGS__)
#define acp_assign_range(type, ...) acp_assign_range_##type(__VA_ARGS__)
#define acp_at(type, ...) acp_at_##type(__VA_ARGS__)
#define acp_back(type, ...) acp_back_##type(__VA_ARGS__)
#define acp_begin(type, ...) acp_begin_##type(__VA_ARGS__)
#define acp_bucket(type, ...) acp_bucket_##type(__VA_ARGS__)
#define acp_bucket_count(type, ...) acp_bucket_count_##type(__VA_ARGS__)
#define acp_bucket_size(type, ...) acp_bucket_size_##type(__VA_ARGS__)
#define acp_capacity(type, ...) acp_capacity_##type(__VA_ARGS__)
#define acp_clear(type, ...) acp_clear_##type(__VA_ARGS__)
#define acp_count(type, ...) acp_count_##type(__VA_ARGS__)
#define acp_create(type, ...) acp_create_##type(__VA_ARGS__)
#define acp_destroy(type, ...) acp_destroy_##type(__VA_ARGS__)
#define acp_empty(type, ...) acp_empty_##type(__VA_ARGS__)
#define acp_end(type, ...) acp_end_##type(__VA_ARGS__)
#define acp_erase(type, ...) acp_erase_##type(__VA_ARGS__)
#define acp_erase_range(type, ...) acp_erase_range_##type(__VA_ARGS__)
#define acp_find(type, ...) acp_find_##type(__VA_ARGS__)
#define acp_front(type, ...) acp_front_##type(__VA_ARGS__)
#define acp_insert(type, ...) acp_insert_##type(__VA_ARGS__)
#define acp_insert_range(type, ...) acp_insert_range_##type(__VA_ARGS__)
#define acp_merge(type, ...) acp_merge_##type(__VA_ARGS__)
#define acp_pop_back(type, ...) acp_pop_back_##type(__VA_ARGS__)
#define acp_pop_front(type, ...) acp_pop_front_##type(__VA_ARGS__)
#define acp_push_back(type, ...) acp_push_back_##type(__VA_ARGS__)
#define acp_push_front(type, ...) acp_push_front_##type(__VA_ARGS__)
#define acp_remove(type, ...) acp_remove_##type(__VA_ARGS__)
#define acp_reserve(type, ...) acp_reserve_##type(__VA_ARGS__)
#define acp_reverse(type, ...) acp_reverse_##type(__VA_ARGS__)
#define acp_size(type, ...) acp_size_##type(__VA_ARGS__)
#define acp_sort(type, ...) acp_sort_##type(__VA_ARGS__)
#define acp_splice(type, ...) acp_splice_##type(__VA_ARGS__)
#define acp_swap(type, ...) acp_swap_##type(__VA_ARGS__)
#define acp_unique(type, ...) acp_unique_##type(__VA_ARGS__)
#define acp_advance(type, ...) acp_advance_##type(__VA_ARGS__)
#define acp_decrement(type, ...) acp_decrement_##type(__VA_ARGS__)
#define acp_dereference(type, ...) acp_dereference_##type(__VA_ARGS__)
#define acp_dereference_value(type, ...) acp_dereference_value_##type(__VA_ARGS__)
#define acp_distance(type, ...) acp_distance_##type(__VA_ARGS__)
#define acp_increment(type, ...) acp_increment_##type(__VA_ARGS__)
#define acp_size_value(type, ...) acp_size_value_##type(__VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif /* ACP_H_INCLUDED */
