/*
 * waitio.h: messages between parallel programs that were started apart, each under its own MPI or none.
 *
 * The interface of WaitIO, on Kumiki. Each program is a parallel block (PB); block 0 is the master. The environment says who is who:
 * WAITIO_MASTER_HOST, WAITIO_MASTER_PORT, WAITIO_PBID, WAITIO_NPB. Rank and size within the block come from the MPI that is loaded in the
 * process, or from its launcher. Functions give 0 if all is well; otherwise a line on standard error says what went wrong, and
 * waitio_error() has the text. Many threads may call at once.
 *
 * Compile with -lwaitio, or by pkg-config waitio. share/doc/kumiki/docs/join.md has more.
 */
#ifndef WAITIO_H_INCLUDED
#define WAITIO_H_INCLUDED

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A group: a handle that is compared with NULL, and points to nothing. It fits into four bytes. */
typedef struct waitio_group *waitio_group_t;

/* What was started and is not waited for. The caller has the memory, and need not clear it; it may be used again after the wait. */
typedef struct waitio_req {
    unsigned long words[11];
} waitio_req_t;

typedef unsigned long waitio_tag_t;

/* Whether a group takes this rank of this block. */
typedef int (*waitio_filter_func_t)(int pbid, int rank);

/* Waits until all processes of all blocks have come, for so many seconds; 0 or less: 120. (WAITIO_TIMEOUT goes before it.) It may be called
   again. */
int waitio_init(int timeout_seconds);
/* Leaves: what was sent arrives. Programs may do without; then the end of the process does it, if its exit code is 0. */
int waitio_finalize(void);

/* How many blocks there are, and which one this is. */
int waitio_pb_size(int *size);
int waitio_pb_rank(int *rank);
/* The processes of each block; gives the number of blocks, or -1. */
int waitio_get_nprocs(int counts[]);

/* Makes a group, without talking to anybody. func[p](p, r) takes rank r of block p; NULL takes nobody. Members are numbered by order[p],
   the smallest first, and within a block by rank. Groups with different numbers never receive from each other. */
waitio_group_t waitio_create_group(int gid, waitio_filter_func_t func[], int order[]);
/* The same of lists of ranks, each ended by a negative number; NULL is an empty one. */
waitio_group_t waitio_create_group_wranks(int gid, int *ranks[], int order[]);
/* Gives a group back, and makes it NULL. */
int waitio_free_group(waitio_group_t *group);
/* This process in a group, -1 if it is no member; and how many members there are. */
int waitio_group_rank(waitio_group_t group, int *rank);
int waitio_group_size(waitio_group_t group, int *size);

/* Sends to a member, and receives from one, by tag. The memory is the library's until the wait. A receive takes messages of up to len bytes. */
int waitio_isend(waitio_group_t group, int peer, char *buf, size_t len, unsigned long tag, waitio_req_t *req);
int waitio_irecv(waitio_group_t group, int peer, char *buf, size_t len, unsigned long tag, waitio_req_t *req);
/* Waits. One that has been waited for is done. */
int waitio_wait(waitio_req_t *req);

/* Beyond the original: */

/* Whether a request is done (1 or 0); then it has been waited for. */
int waitio_test(waitio_req_t *req, int *done);
/* Waits for all. */
int waitio_waitall(int n, waitio_req_t req[]);
/* Waits for one of those that have not been waited for; -1 if there are none. */
int waitio_waitany(int n, waitio_req_t req[], int *index);
/* Whether one is done; if so, it has been waited for. */
int waitio_testany(int n, waitio_req_t req[], int *index, int *done);
/* How long the next message is: waits for it, or looks whether it is there. It stays. */
int waitio_probe(waitio_group_t group, int peer, unsigned long tag, size_t *len);
int waitio_iprobe(waitio_group_t group, int peer, unsigned long tag, int *found, size_t *len);
/* Gives a receive up. If its message has come already, it is received. */
int waitio_cancel(waitio_req_t *req);
/* What went wrong last in this thread; good until its next failure. */
const char *waitio_error(void);

/* Takes everybody. A program may have its own. */
int truef(int pbid, int rank);

#ifdef __cplusplus
}
#endif

#endif /* WAITIO_H_INCLUDED */
