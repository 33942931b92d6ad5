/*
 * kumiki.h: the C interface of Kumiki, one global memory across processes and nodes.
 *
 * Every function that can fail gives a status; kumiki_last_error() says what went wrong, in words. Functions that give a
 * number or a pointer instead give -1 or NULL then. The world of a program that has called acp_init is named by NULL wherever a
 * world is wanted, so that both interfaces can be used together. Many threads may call at once.
 *
 * Compile with `kumiki cc`, start with `kumiki run -n 4 ./program`. share/doc/kumiki/docs/c.md has more.
 */
#ifndef KUMIKI_H_INCLUDED
#define KUMIKI_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. */
enum kumiki_status {
    KUMIKI_SUCCESS = 0,
    KUMIKI_PEER_LOST = 1,     /* a rank is gone: do without it, or end the job */
    KUMIKI_TIMEOUT = 2,       /* the deadline passed; the wait can be begun again */
    KUMIKI_OUT_OF_MEMORY = 3, /* the budget, the heap or the machine has no more, or the rank no more registrations */
    KUMIKI_REFUSED = 4,       /* the other side did not accept us, or we did not accept it */
    KUMIKI_BOUNDS = 5,        /* an address outside every region; nothing was touched */
    KUMIKI_CLOSED = 6,        /* there is no world, or the job is ending */
    KUMIKI_SYSTEM = 7,        /* the operating system said no */
    KUMIKI_MISUSE = 8,        /* an argument that can never work; the message names it */
    KUMIKI_INTERNAL = 9       /* a bug of the library */
};

/* The version of the library, such as "0.1.0". */
const char *kumiki_version(void);
/* What went wrong last in this thread; good until its next failure. */
const char *kumiki_last_error(void);
/* The name of a status. */
const char *kumiki_status_name(int status);

/* The ranks that share a global memory, as this one sees it. */
typedef struct kumiki_world kumiki_world;

/* Joins the world that the environment describes; returns when all ranks have. */
int kumiki_init(kumiki_world **world);
/* Completes this rank's operations, waits for all ranks, leaves and frees the world, whatever the status; but if another thread is
   inside a call for 10 s more, nothing is done (KUMIKI_MISUSE), and it can be called again. What channels have begun is finished, for
   30 s at most. The world is KUMIKI_MISUSE afterwards, also when there is another one. */
int kumiki_finalize(kumiki_world *world);
/* Renumbers the ranks and starts over: all ranks call it, with different numbers. Regions are gone, starter memory is zero. */
int kumiki_reset(kumiki_world *world, uint32_t new_rank);
/* Ends the whole job with a message. Returns only if there is no world. */
int kumiki_abort(const kumiki_world *world, const char *message);
/* Waits until every rank has come here. Completes nothing. */
int kumiki_sync(const kumiki_world *world);
/* The same, for at most this long. After KUMIKI_TIMEOUT the rank is still in the barrier; the next call goes on waiting. */
int kumiki_sync_for(const kumiki_world *world, uint64_t milliseconds);

/* Who is who; -1 if there is no world, or no such rank. */
int64_t kumiki_rank(const kumiki_world *world);
int64_t kumiki_ranks(const kumiki_world *world);
int64_t kumiki_node(const kumiki_world *world);
int64_t kumiki_nodes(const kumiki_world *world);
int64_t kumiki_node_of(const kumiki_world *world, uint32_t rank);

/* The address of a byte of any rank's memory. Inside a region, address + n is the address n bytes further on. */
typedef uint64_t kumiki_address;
#define KUMIKI_NULL ((kumiki_address)0)

/* Starter memory: every rank has it from the start, zeroed, and its address needs no exchange. */
int kumiki_starter(const kumiki_world *world, uint32_t rank, kumiki_address *address);
int64_t kumiki_starter_bytes(const kumiki_world *world);
/* Zeroed memory from this rank's part of the arena: ranks of the same node reach it without anybody's help. */
int kumiki_alloc(const kumiki_world *world, size_t bytes, kumiki_address *address);
int kumiki_dealloc(const kumiki_world *world, kumiki_address address);
/* Memory that the program has. It must be there until kumiki_unregister has returned. What may only be read is read-only for all. */
int kumiki_register(const kumiki_world *world, void *memory, size_t bytes, kumiki_address *address);
int kumiki_unregister(const kumiki_world *world, kumiki_address address);
/* Memory on any rank, taken and given back from any rank. */
int kumiki_malloc(const kumiki_world *world, size_t bytes, uint32_t rank, kumiki_address *address);
int kumiki_free(const kumiki_world *world, kumiki_address address);
/* The pointer to this rank's own memory; NULL for other memory. */
void *kumiki_pointer(const kumiki_world *world, kumiki_address address);
/* The rank that owns an address; -1 if it is nobody's. */
int64_t kumiki_rank_of(const kumiki_world *world, kumiki_address address);

/* Write and read bytes, from and into memory that need not be registered; complete when they return. */
int kumiki_put(const kumiki_world *world, kumiki_address to, const void *from, size_t bytes);
int kumiki_get(const kumiki_world *world, void *into, kumiki_address from, size_t bytes);

/* An operation that has been started: 1, 2, 3 and so on, or 0 if it was complete at once, with all before it. Completing one completes
   all before it. */
typedef uint64_t kumiki_handle;
/* What must be complete before an operation starts: a handle and all before it, or one of these. */
typedef uint64_t kumiki_order;
#define KUMIKI_ORDER_NONE ((kumiki_order)0)
#define KUMIKI_ORDER_ALL (~(kumiki_order)0)
/* Behind the copy or atomic before it; behind a copy of 256 KiB or more that costs a round trip. */
#define KUMIKI_ORDER_CONTINUE (~(kumiki_order)1)

/* Starts a copy between any two ranks; the caller may own neither side. `handle` may be NULL. */
int kumiki_copy(const kumiki_world *world, kumiki_address dst, kumiki_address src, size_t bytes, kumiki_order order,
    kumiki_handle *handle);

/* Operations on a word that is aligned to its size. */
enum kumiki_atomic {
    KUMIKI_COMPARE_SWAP = 1, /* stores `second` if the word holds `first` */
    KUMIKI_SWAP = 2,
    KUMIKI_ADD = 3,
    KUMIKI_XOR = 4,
    KUMIKI_OR = 5,
    KUMIKI_AND = 6,
    KUMIKI_MIN = 7, /* keeps the smaller one */
    KUMIKI_MAX = 8  /* keeps the larger one */
};

/* Does an atomic operation; the old value goes to `old`, which may be NULL. */
int kumiki_fetch_u32(const kumiki_world *world, int operation, kumiki_address word, uint32_t first, uint32_t second,
    uint32_t *old);
int kumiki_fetch_u64(const kumiki_world *world, int operation, kumiki_address word, uint64_t first, uint64_t second,
    uint64_t *old);
/* Starts one whose old value goes to a global address. `handle` may be NULL. */
int kumiki_atomic_u32(const kumiki_world *world, int operation, kumiki_address dst, kumiki_address word, uint32_t first,
    uint32_t second, kumiki_order order, kumiki_handle *handle);
int kumiki_atomic_u64(const kumiki_world *world, int operation, kumiki_address dst, kumiki_address word, uint64_t first,
    uint64_t second, kumiki_order order, kumiki_handle *handle);

/* Wait for an operation and all before it; the first failure among them is told, once. */
int kumiki_complete(const kumiki_world *world, kumiki_handle handle);
int kumiki_complete_for(const kumiki_world *world, kumiki_handle handle, uint64_t milliseconds);
int kumiki_complete_all(const kumiki_world *world);
/* Whether they are complete: 1 or 0 goes to `complete`. */
int kumiki_inquire(const kumiki_world *world, kumiki_handle handle, int *complete);

/* A rank, a tag and a time where any will do. */
#define KUMIKI_ANY_RANK (~(uint32_t)0)
#define KUMIKI_ANY_TAG (~(uint64_t)0)
#define KUMIKI_FOREVER (~(uint64_t)0)

/* How a word is compared with a value. */
enum kumiki_comparison {
    KUMIKI_EQUAL = 1,
    KUMIKI_NOT_EQUAL = 2,
    KUMIKI_LESS = 3,
    KUMIKI_AT_MOST = 4,
    KUMIKI_GREATER = 5,
    KUMIKI_AT_LEAST = 6
};

/* Waits until a word of this rank's own memory compares so with `value`; it goes to `found`, which may be NULL. `from` is the rank that
   writes it, whose loss ends the wait, or KUMIKI_ANY_RANK; after `milliseconds` it is KUMIKI_TIMEOUT, unless that is KUMIKI_FOREVER. */
int kumiki_wait_until_u32(const kumiki_world *world, kumiki_address word, int comparison, uint32_t value, uint32_t from,
    uint64_t milliseconds, uint32_t *found);
int kumiki_wait_until_u64(const kumiki_world *world, kumiki_address word, int comparison, uint64_t value, uint32_t from,
    uint64_t milliseconds, uint64_t *found);
/* Wakes the threads of a rank of this node that wait for a word: for whoever has written there by a pointer. */
int kumiki_wake(const kumiki_world *world, uint32_t rank);
/* Writes bytes, and then does an atomic operation on a word of the same rank: whoever sees the word changed sees the bytes. */
int kumiki_put_signal_u32(const kumiki_world *world, kumiki_address to, const void *from, size_t bytes, kumiki_address word,
    int operation, uint32_t first, uint32_t second);
int kumiki_put_signal_u64(const kumiki_world *world, kumiki_address to, const void *from, size_t bytes, kumiki_address word,
    int operation, uint64_t first, uint64_t second);

/* A dimension of a section: how many elements, and how far apart they lie, in elements. The last dimension runs fastest. */
typedef struct kumiki_stride {
    size_t count;
    ptrdiff_t stride;
} kumiki_stride;

/* Write and read a section: as many elements there as here, each side in its own order. Strides of memory of the program are not
   negative. */
int kumiki_put_section(const kumiki_world *world, kumiki_address to, const kumiki_stride *there, size_t there_dimensions,
    const void *from, const kumiki_stride *here, size_t here_dimensions, size_t element_bytes);
int kumiki_get_section(const kumiki_world *world, void *into, const kumiki_stride *here, size_t here_dimensions,
    kumiki_address from, const kumiki_stride *there, size_t there_dimensions, size_t element_bytes);

/*
 * Patterns of communication: share/doc/kumiki/docs/comm.md says how each behaves. A handle that was freed or closed is gone, whatever the
 * status, unless that was KUMIKI_MISUSE because it is in use. One that is gone, or whose world has ended, is KUMIKI_MISUSE. A handle is used
 * by one thread at a time; groups, grids, senders and receivers may be used by several. What members do together all of them do, in the
 * same order. An argument that cannot be is refused on the rank that gives it, before it meets the others.
 */

/* Something that was started. Memory that it was given must stay with it, untouched, until the request has ended: until it was waited
   for, tested with success, cancelled or freed, or kumiki_finalize has returned. */
typedef struct kumiki_request kumiki_request;

/* What is known of a message. Of what is no message by tag only the bytes are known. */
typedef struct kumiki_message_info {
    uint32_t from;
    uint64_t tag;
    size_t bytes;
} kumiki_message_info;

/* Waits for a request, ends it and makes it NULL, whatever the status (but for one that is none); NULL is one that has ended. Any `info` may be NULL. */
int kumiki_request_wait(kumiki_request **request, kumiki_message_info *info);
/* The same if it is done, which goes to `done`: 1 or 0. */
int kumiki_request_test(kumiki_request **request, int *done, kumiki_message_info *info);
/* The same for all of a list; the first failure is told. `infos` may be NULL. */
int kumiki_request_wait_all(kumiki_request **requests, size_t count, kumiki_message_info *infos);
/* Waits for one of a list, which it may be: its place goes to `index`, or `count` if all had ended. */
int kumiki_request_wait_any(kumiki_request **requests, size_t count, size_t *index, kumiki_message_info *info);
/* Gives a receive of a message up; or ends it as if it was waited for, if it has got its message: `cancelled` is 1 or 0. */
int kumiki_request_cancel(kumiki_request **request, int *cancelled, kumiki_message_info *info);
/* Ends a request without asking what becomes of it: a send is waited for; a receive is given up, and a message that it has got is lost;
   a collective goes on without its memory. */
int kumiki_request_free(kumiki_request **request);

/* Messages between any two ranks. Those of one context (0 if there is no other) are never received in another. `from` and `tag` of a
   receive may be any. When a send returns its memory is free: a short message is on its way, a long one was received, or
   taken in by a receiver that waits for something else. */
int kumiki_message_send(const kumiki_world *world, uint32_t context, uint32_t to, uint64_t tag, const void *data, size_t bytes);
/* Waits for a message of at most `room` bytes; a longer one is lost, and KUMIKI_MISUSE. */
int kumiki_message_receive(const kumiki_world *world, uint32_t context, uint32_t from, uint64_t tag, void *into, size_t room,
    kumiki_message_info *info);
int kumiki_message_start_send(const kumiki_world *world, uint32_t context, uint32_t to, uint64_t tag, const void *data,
    size_t bytes, kumiki_request **request);
int kumiki_message_start_receive(const kumiki_world *world, uint32_t context, uint32_t from, uint64_t tag, void *into, size_t room,
    kumiki_request **request);
/* Waits until a message has come, and leaves it where it is; or says whether one has: `found` is 1 or 0. */
int kumiki_message_probe(const kumiki_world *world, uint32_t context, uint32_t from, uint64_t tag, kumiki_message_info *info);
int kumiki_message_try_probe(const kumiki_world *world, uint32_t context, uint32_t from, uint64_t tag, int *found,
    kumiki_message_info *info);

/* How messages of a pair of ranks are received. */
enum kumiki_message_way {
    KUMIKI_WAY_AUTOMATIC = 0, /* in a lane of their own where a pair sends much, otherwise in the mailbox */
    KUMIKI_WAY_MAILBOX = 1,
    KUMIKI_WAY_LANE = 2
};

typedef struct kumiki_message_options {
    int way;
    size_t fast_pairs; /* the most senders that have a lane at a time */
    size_t lane_bytes; /* 2.5 KiB to 1 MiB; up to four senders of long messages get 640 KiB, while memory is plentiful */
    size_t kept_bytes; /* the most that is kept for a receive that waits for a message behind others */
} kumiki_message_options;

/* What holds if nothing is said; and how this rank receives messages from now on. */
int kumiki_message_default_options(kumiki_message_options *options);
int kumiki_message_set_options(const kumiki_world *world, const kumiki_message_options *options);

/* Channels: messages from one rank to another, in order. Each makes its end, and waits for nobody; the first sender to a rank meets the
   first receiver that it makes, and so on. */
typedef struct kumiki_sender kumiki_sender;
typedef struct kumiki_receiver kumiki_receiver;

int kumiki_sender_create(const kumiki_world *world, uint32_t to, kumiki_sender **sender);
/* Slots are the room for what was sent and not received, in the memory of the receiver; 0 of 0 bytes are 16 of 1 KiB. */
int kumiki_receiver_create(const kumiki_world *world, uint32_t from, size_t slots, size_t slot_bytes, kumiki_receiver **receiver);
/* Sends; when it returns the memory is free. */
int kumiki_sender_send(const kumiki_sender *sender, const void *data, size_t bytes);
int kumiki_sender_start_send(const kumiki_sender *sender, const void *data, size_t bytes, kumiki_request **request);
/* Free a sender behind everything that was sent: when that is with the receiver, or without waiting. */
int kumiki_sender_free(kumiki_sender *sender);
int kumiki_sender_start_free(kumiki_sender *sender, kumiki_request **request);
/* Waits for the next message, of which `room` bytes are taken; if it is longer that is KUMIKI_MISUSE. `bytes` may be NULL. */
int kumiki_receiver_receive(const kumiki_receiver *receiver, void *into, size_t room, size_t *bytes);
int kumiki_receiver_start_receive(const kumiki_receiver *receiver, void *into, size_t room, kumiki_request **request);
/* Whether a message has begun to come: 1 or 0. It is 1 as well when none can come any more, because the sender was freed or is lost:
   receiving says so then (KUMIKI_CLOSED, KUMIKI_PEER_LOST). */
int kumiki_receiver_has_mail(const kumiki_receiver *receiver, int *has);
/* Waits until the sender is freed, too. What was sent and is not received is dropped. */
int kumiki_receiver_free(kumiki_receiver *receiver);

/* Segment buffers: equal buffers at both ends, in memory of the program, through which segments go in one direction. The memory must be
   there until the end was freed. */
typedef struct kumiki_segments kumiki_segments;

int kumiki_segments_source(const kumiki_world *world, uint32_t to, void *memory, size_t segment_bytes, size_t count,
    kumiki_segments **segments);
int kumiki_segments_destination(const kumiki_world *world, uint32_t from, void *memory, size_t segment_bytes, size_t count,
    kumiki_segments **segments);
/* The segment in `memory` that can be filled, or read: waits for it; or gives NULL if there is none. */
int kumiki_segments_wait(kumiki_segments *segments, void **segment);
int kumiki_segments_try(kumiki_segments *segments, void **segment);
/* Sends the segment that was filled, or gives back the one that was read. */
int kumiki_segments_advance(kumiki_segments *segments);
/* How many segments were given back, were sent, and were sent and are at their place. Each may be NULL. */
int kumiki_segments_counts(kumiki_segments *segments, uint64_t *head, uint64_t *tail, uint64_t *sent);
/* Frees an end, when everything that it has sent or given back is where it belongs. A destination is freed when nobody sends any more. */
int kumiki_segments_free(kumiki_segments *segments);

/* Write, read and change many words; those of other nodes travel together. Of a word that is named twice the order is kept. What is
   written to must not overlap `words`; `old` may be `first` or `second`. */
int kumiki_put_many_u32(const kumiki_world *world, const kumiki_address *words, const uint32_t *values, size_t count);
int kumiki_put_many_u64(const kumiki_world *world, const kumiki_address *words, const uint64_t *values, size_t count);
int kumiki_get_many_u32(const kumiki_world *world, uint32_t *into, const kumiki_address *words, size_t count);
int kumiki_get_many_u64(const kumiki_world *world, uint64_t *into, const kumiki_address *words, size_t count);
/* `second` may be NULL, except for KUMIKI_COMPARE_SWAP; `old` may be NULL, and then nothing is fetched. */
int kumiki_fetch_many_u32(const kumiki_world *world, int operation, const kumiki_address *words, const uint32_t *first,
    const uint32_t *second, uint32_t *old, size_t count);
int kumiki_fetch_many_u64(const kumiki_world *world, int operation, const kumiki_address *words, const uint64_t *first,
    const uint64_t *second, uint64_t *old, size_t count);

/* A stream: words that are written and changed one by one, and travel together. They are done when a flush returns. */
typedef struct kumiki_stream kumiki_stream;

int kumiki_stream_create(const kumiki_world *world, kumiki_stream **stream);
int kumiki_stream_put_u32(kumiki_stream *stream, kumiki_address to, uint32_t value);
int kumiki_stream_put_u64(kumiki_stream *stream, kumiki_address to, uint64_t value);
/* An operation of enum kumiki_atomic, without the old value. */
int kumiki_stream_update_u32(kumiki_stream *stream, int operation, kumiki_address word, uint32_t first, uint32_t second);
int kumiki_stream_update_u64(kumiki_stream *stream, int operation, kumiki_address word, uint64_t first, uint64_t second);
int kumiki_stream_flush(kumiki_stream *stream);
/* Bytes of its buffers. */
int64_t kumiki_stream_bytes(const kumiki_stream *stream);
/* Flushes, and frees. */
int kumiki_stream_free(kumiki_stream *stream);

/* Groups: ranks that do things together. When a member fails, leaves or does something else than the others, the group is broken, and
   all get an error. */
typedef struct kumiki_group kumiki_group;

typedef struct kumiki_group_options {
    size_t block_bytes; /* the most memory that each member gives; 0 is 16 KiB */
    int fixed;          /* no algorithm is tried: sums are the same from run to run */
} kumiki_group_options;

/* A group of all ranks. `options` may be NULL, and are the same on all. */
int kumiki_group_create(const kumiki_world *world, const kumiki_group_options *options, kumiki_group **group);
/* Groups of those who give the same colour, in the order of their keys. Whoever gives a negative colour gets NULL. */
int kumiki_group_split(const kumiki_group *group, int64_t colour, int64_t key, kumiki_group **part);
/* A group of some members, in this order; all members call it with the same list, and those who are not in it get NULL. */
int kumiki_group_subset(const kumiki_group *group, const uint32_t *members, size_t count, kumiki_group **part);
/* This rank's number in the group, its members, and the rank in the world of one; -1 if there is none. */
int64_t kumiki_group_rank(const kumiki_group *group);
int64_t kumiki_group_ranks(const kumiki_group *group);
int64_t kumiki_group_world_rank(const kumiki_group *group, uint32_t member);
/* Bytes that it takes of this rank's arena. */
int64_t kumiki_group_block_bytes(const kumiki_group *group);
/* Lets later calls use "flat", "tree", "doubling", "halving", "ring", "direct" or "levels" where that will do; NULL lets them choose.
   All say the same. */
int kumiki_group_force(const kumiki_group *group, const char *algorithm);
/* What was decided so far, as text, cut to `room`; `bytes` says how long it is with its end. */
int kumiki_group_decisions(const kumiki_group *group, char *text, size_t room, size_t *bytes);
/* Waits for all members, and frees the group. Its grids and requests are freed before: otherwise it is KUMIKI_MISUSE, and nothing is
   freed. */
int kumiki_group_free(kumiki_group *group);

/* The members of a group in a grid of 1 to 8 dimensions, each a ring or not; the last one goes fastest with their numbers. */
typedef struct kumiki_grid kumiki_grid;

/* Not collective: nothing is made together. */
int kumiki_grid_create(const kumiki_group *group, size_t dimensions, const uint32_t *extents, const int *periodic,
    kumiki_grid **grid);
/* Where a member is; the member at a place, and the one so many steps from this one, or -1 if there is none. */
int kumiki_grid_coordinates(const kumiki_grid *grid, uint32_t member, uint32_t *place);
int kumiki_grid_member_at(const kumiki_grid *grid, const int64_t *place, int64_t *member);
int kumiki_grid_neighbour(const kumiki_grid *grid, size_t dimension, int64_t steps, int64_t *member);
/* A group of those who differ from this member in these dimensions only: a row, a column and so on. All members call it. */
int kumiki_grid_part(const kumiki_grid *grid, const size_t *dimensions, size_t count, kumiki_group **part);
int kumiki_grid_free(kumiki_grid *grid);

/* Types of elements. Those that end in _AT are a value and where it was found. */
enum kumiki_type {
    KUMIKI_OWN = 0, /* what an operation of kumiki_operation_create combines */
    KUMIKI_I8 = 1,
    KUMIKI_U8 = 2,
    KUMIKI_I16 = 3,
    KUMIKI_U16 = 4,
    KUMIKI_I32 = 5,
    KUMIKI_U32 = 6,
    KUMIKI_I64 = 7,
    KUMIKI_U64 = 8,
    KUMIKI_F32 = 9,
    KUMIKI_F64 = 10,
    KUMIKI_I32_AT = 11,
    KUMIKI_U32_AT = 12,
    KUMIKI_F32_AT = 13,
    KUMIKI_I64_AT = 14,
    KUMIKI_U64_AT = 15,
    KUMIKI_F64_AT = 16
};

typedef struct kumiki_i32_at { int32_t value; uint32_t place; } kumiki_i32_at;
typedef struct kumiki_u32_at { uint32_t value; uint32_t place; } kumiki_u32_at;
typedef struct kumiki_f32_at { float value; uint32_t place; } kumiki_f32_at;
typedef struct kumiki_i64_at { int64_t value; uint64_t place; } kumiki_i64_at;
typedef struct kumiki_u64_at { uint64_t value; uint64_t place; } kumiki_u64_at;
typedef struct kumiki_f64_at { double value; uint64_t place; } kumiki_f64_at;

/* Elements are combined by KUMIKI_ADD, KUMIKI_MULTIPLY, KUMIKI_MIN and KUMIKI_MAX; integers also by KUMIKI_AND, KUMIKI_OR and
   KUMIKI_XOR; those with a place by KUMIKI_MIN and KUMIKI_MAX alone, and of equal ones the smallest place counts. */
#define KUMIKI_MULTIPLY 9

/* A function of the program: makes result[i] of left[i] and right[i], which are of members before and behind, for `count` elements.
   `result` is where `left` or `right` is. It must be associative, and return: an exception or longjmp out of it is beyond help. It
   makes no call of its group. */
typedef void
    (*kumiki_combine)(const void *left, const void *right, void *result, size_t count, void *context);

/* Makes an operation of it, for KUMIKI_OWN. It `commutes` if the order of the members does not matter. Free it when all that uses it
   has ended; a collective whose request was freed goes on, so then the function and its context must stay until its group is freed.
   Elements are aligned to 16 bytes at most. */
int kumiki_operation_create(size_t element_bytes, int commutes, kumiki_combine combine, void *context, int *operation);
int kumiki_operation_free(int operation);

/* In a call that moves bytes: what this member has is where it belongs already. */
#define KUMIKI_IN_PLACE ((void *)~(size_t)0)

int kumiki_group_barrier(const kumiki_group *group);
/* Combine the elements of all members, in place: into those of the root, or of all; of the members up to each one, or before it. */
int kumiki_group_reduce(const kumiki_group *group, uint32_t root, void *data, size_t count, int type, int operation);
int kumiki_group_allreduce(const kumiki_group *group, void *data, size_t count, int type, int operation);
int kumiki_group_scan(const kumiki_group *group, void *data, size_t count, int type, int operation);
int kumiki_group_exscan(const kumiki_group *group, void *data, size_t count, int type, int operation);
/* Leaves to each member its part of what is combined, counts[i] elements for member i, where it is; the rest of `data` is undefined. */
int kumiki_group_reduce_scatter(const kumiki_group *group, void *data, const size_t *counts, int type, int operation);
/* Gives the bytes of the root to all. */
int kumiki_group_broadcast(const kumiki_group *group, uint32_t root, void *data, size_t bytes);
/* Brings `bytes` of each member to the root, or counts[i] bytes of member i; `into` and `counts` count there. In place on the root:
   `data`. */
int kumiki_group_gather(const kumiki_group *group, uint32_t root, const void *data, size_t bytes, void *into);
int kumiki_group_gatherv(const kumiki_group *group, uint32_t root, const void *data, size_t bytes, const size_t *counts, void *into);
/* Gives `bytes` of the root to each member, or counts[i] bytes to member i; `data` and `counts` count there. In place on the root:
   `into`. */
int kumiki_group_scatter(const kumiki_group *group, uint32_t root, const void *data, void *into, size_t bytes);
int kumiki_group_scatterv(const kumiki_group *group, uint32_t root, const void *data, const size_t *counts, void *into, size_t bytes);
/* Brings `bytes` of each member to all, or counts[i] bytes of member i, the same counts on all. In place: `data`. */
int kumiki_group_allgather(const kumiki_group *group, const void *data, size_t bytes, void *into);
int kumiki_group_allgatherv(const kumiki_group *group, const void *data, size_t bytes, const size_t *counts, void *into);
/* Gives part i of `data` to member i, and takes part i of `into` from it: `bytes` each, or as the counts say, in bytes. */
int kumiki_group_alltoall(const kumiki_group *group, const void *data, void *into, size_t bytes);
int kumiki_group_alltoallv(const kumiki_group *group, const void *data, const size_t *out_counts, void *into, const size_t *in_counts);

/* The same without waiting. They go on when this rank is in a call of the group, or asks for the request; `data` is read at once, and
   what comes of it is written when the request ends. */
int kumiki_group_start_barrier(const kumiki_group *group, kumiki_request **request);
int kumiki_group_start_broadcast(const kumiki_group *group, uint32_t root, void *data, size_t bytes, kumiki_request **request);
int kumiki_group_start_reduce(const kumiki_group *group, uint32_t root, void *data, size_t count, int type, int operation,
    kumiki_request **request);
int kumiki_group_start_allreduce(const kumiki_group *group, void *data, size_t count, int type, int operation,
    kumiki_request **request);
int kumiki_group_start_allgather(const kumiki_group *group, const void *data, size_t bytes, void *into, kumiki_request **request);
int kumiki_group_start_alltoall(const kumiki_group *group, const void *data, void *into, size_t bytes, kumiki_request **request);

/* Halos: the ghost cells around a member's piece of a field, from those who have them. A field is an array of all its cells with the
   ghosts around them, the last dimension together. */
typedef struct kumiki_halo kumiki_halo;

/* Made by all members of the grid. `extents` are those of this member's piece, without ghosts; ghosts[2 * d] and ghosts[2 * d + 1] are
   the cells below and above in dimension d; with `corners` also those beyond edges and corners. So many `fields` at a time. */
int kumiki_halo_create(const kumiki_grid *grid, size_t element_bytes, const size_t *extents, const size_t *ghosts, int corners,
    size_t fields, kumiki_halo **halo);
/* Elements of a field with its ghost cells, and bytes of this rank's arena that the halo takes. */
int64_t kumiki_halo_elements(const kumiki_halo *halo);
int64_t kumiki_halo_block_bytes(const kumiki_halo *halo);
/* Where a cell is in a field; places count from the first own cell on, so that ghosts below are negative. */
int kumiki_halo_index(const kumiki_halo *halo, const int64_t *place, size_t *index);
/* Fills the ghost cells of all fields: a list of as many pointers as the halo has fields. */
int kumiki_halo_exchange(kumiki_halo *halo, void *const *fields);
/* Sends what neighbours need, and fills the ghost cells with what came. In between the program computes; it may change its own cells. */
int kumiki_halo_start(kumiki_halo *halo, void *const *fields);
int kumiki_halo_finish(kumiki_halo *halo, void *const *fields);
/* An exchange by a helper thread while `work` computes in this one: it reads the fields, makes no call of the halo, and returns. */
int kumiki_halo_overlap(kumiki_halo *halo, void *const *fields, void (*work)(void *context), void *context);
/* Waits for all members. */
int kumiki_halo_free(kumiki_halo *halo);

/* Sparse exchanges among all ranks: each knows to whom it sends, and nobody from whom something comes. */
typedef struct kumiki_sparse kumiki_sparse;

/* Made by all ranks. Each has room for `room_bytes` at a time, twice, the same on all; 0 is 64 KiB. More comes in several rounds. */
int kumiki_sparse_create(const kumiki_world *world, size_t room_bytes, kumiki_sparse **sparse);
int kumiki_sparse_send(kumiki_sparse *sparse, uint32_t to, const void *data, size_t bytes);
/* Waits until everything has come that all ranks have sent: from so many of them. All ranks call it. */
int kumiki_sparse_finish(kumiki_sparse *sparse, size_t *sources);
/* What came from one of them, in the order in which it was sent; the ranks are in order, too. It stays there until the next call of the
   exchange but this, and is aligned as malloc's memory is if all that is sent comes in multiples of that. */
int kumiki_sparse_arrival(const kumiki_sparse *sparse, size_t index, uint32_t *source, const void **data, size_t *bytes);
/* Rounds that there were. */
int64_t kumiki_sparse_rounds(const kumiki_sparse *sparse);
/* Waits for all ranks. */
int kumiki_sparse_free(kumiki_sparse *sparse);

/* Relays: a line of ranks along which buckets of at most `bucket_bytes` go, each to the next, `depth` of them between two ranks. */
typedef struct kumiki_relay kumiki_relay;

/* Made by all ranks: of `members` in this order, or of all if that is NULL. Those who are not in it get NULL. */
int kumiki_relay_create(const kumiki_world *world, const uint32_t *members, size_t count, size_t bucket_bytes, size_t depth,
    kumiki_relay **relay);
/* The number of this rank in the line, and how many there are. */
int64_t kumiki_relay_position(const kumiki_relay *relay);
int64_t kumiki_relay_ranks(const kumiki_relay *relay);
/* Waits for the next bucket, which may be changed and stays until the next one is received; NULL when the rank before has closed its
   relay. */
int kumiki_relay_receive(kumiki_relay *relay, void **bucket, size_t *bytes);
/* Waits for as many buckets as fill this memory. */
int kumiki_relay_receive_into(kumiki_relay *relay, void *into, size_t bytes);
/* Whether receiving would not wait: 1 or 0. */
int kumiki_relay_has_bucket(kumiki_relay *relay, int *has);
/* Passes the bucket on that was received last, as it is now; or sends bytes, in as many buckets as it takes. */
int kumiki_relay_pass_on(kumiki_relay *relay);
int kumiki_relay_send(kumiki_relay *relay, const void *data, size_t bytes);
/* Ends the relay for this rank, and frees it. */
int kumiki_relay_close(kumiki_relay *relay);

/*
 * Programs that join: separate ones, each under its own launcher and its own MPI library or none, become one world; share/doc/kumiki/docs/join.md
 * says how they find each other. Each is a block. Everything else of this header is done with that world: kumiki_message_send and the like between
 * any two ranks of it (the context is the id of a group, where both sides have one), and collectives in groups. A process that is lost is
 * KUMIKI_PEER_LOST, with its block and rank in the message.
 */

/* How this process joins. kumiki_join_default_options fills in what leaves everything to the environment. */
typedef struct kumiki_join_options {
    int64_t block; /* the number of this program's block, and how many there are; -1: WAITIO_PBID and WAITIO_NPB say */
    int64_t blocks;
    int64_t rank; /* of this process in its block, and how many that has; -1: its MPI or its launcher says */
    int64_t ranks;
    const char *host; /* where rank 0 of block 0 listens; NULL, and port 0: WAITIO_MASTER_HOST and WAITIO_MASTER_PORT say */
    uint16_t port;
    const char *relay; /* "host:port" of a kumiki relay, which knows the secret, through which machines are reached that are in none of the
                          networks of this one; NULL: WAITIO_RELAY says, or there is none */
    const void *secret; /* what all blocks know, and nobody else; NULL: WAITIO_SECRET_FILE or WAITIO_SECRET says, or there is none */
    size_t secret_bytes;
    uint64_t milliseconds; /* how long to wait for the others; 0 is 120 s. WAITIO_TIMEOUT goes before it */
} kumiki_join_options;

int kumiki_join_default_options(kumiki_join_options *options);
/* Joins; returns when every process of every block has come, or says who is missing. `options` may be NULL. */
int kumiki_join_init(const kumiki_join_options *options, kumiki_world **world);
/* Sees to it that what was sent arrives, leaves and frees the world, whatever the status; but not while another thread is inside a call, as
   kumiki_finalize. The others go on; what is still registered is taken back, and whoever asks for it later gets an error. Channels that are open have
   30 s to become empty, and those with whom this process has had collectives are waited for, for 15 s at most. Where this process keeps the agent
   of its machine or the hub of all as threads (KUMIKI_HOSTING) it returns when nobody needs them. */
int kumiki_join_leave(kumiki_world *world);
/* How many blocks there are, which of them this is, this process's rank in it, and how many processes a block has; -1 on failure. */
int64_t kumiki_join_blocks(const kumiki_world *world);
int64_t kumiki_join_block(const kumiki_world *world);
int64_t kumiki_join_rank(const kumiki_world *world);
int64_t kumiki_join_ranks(const kumiki_world *world, uint32_t block);
/* The rank in the world of a process, -1 if there is none; and the block and the rank there of a rank of the world. */
int64_t kumiki_join_world_rank(const kumiki_world *world, uint32_t block, uint32_t rank);
int kumiki_join_place_of(const kumiki_world *world, uint32_t world_rank, uint32_t *block, uint32_t *rank);
/* A group of some ranks of the world, in this order. Those call it, and nobody else need: whoever does and is none of them gets NULL.
   All give the same id, which no other group has that is not freed. */
int kumiki_join_group(const kumiki_world *world, int32_t id, const uint32_t *members, size_t count, kumiki_group **group);

/* What the library has taken for this rank. */
typedef struct kumiki_ledger {
    uint64_t private_bytes;
    uint64_t arena_bytes;
    uint64_t budget_bytes; /* all ones if there is no budget */
    uint64_t bytes_per_connected_peer;
    uint64_t connected_peers;
    uint64_t bytes_per_operation;
    uint64_t page_table_bytes; /* an estimate */
} kumiki_ledger;

int kumiki_read_ledger(const kumiki_world *world, kumiki_ledger *ledger);
/* The bytes of one purpose, by its name in `kumiki mem`: "heap", "connections", "data structures" and so on. */
int kumiki_ledger_bytes(const kumiki_world *world, const char *purpose, uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_H_INCLUDED */
