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
/* Completes this rank's operations, waits for all ranks, leaves and frees the world, whatever the status. */
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
