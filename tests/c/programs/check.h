/* What the programs share: a check that says where it failed, and words in starter memory. C and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <acp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                        \
    do {                                                                                                   \
        if (!(what)) {                                                                                     \
            fprintf(stderr, "rank %d: %s:%d: this should be: %s\n", acp_rank(), __FILE__, __LINE__, #what); \
            exit(3);                                                                                       \
        }                                                                                                  \
    } while (0)

/* The address and the pointer of a word of starter memory. */
static inline acp_ga_t word_ga(int rank, int index)
{
    return acp_query_starter_ga(rank) + 8 * (acp_ga_t)index;
}

static inline volatile uint64_t *my_word(int index)
{
    return (volatile uint64_t *)acp_query_address(word_ga(acp_rank(), index));
}

/* Tells every rank a word; `all` gets what each rank told. Uses words 0 to procs - 1 of starter memory. */
static inline void exchange(uint64_t word, uint64_t *all)
{
    int rank, procs = acp_procs(), me = acp_rank();
    *my_word(64) = word;
    acp_sync();
    for (rank = 0; rank < procs; rank++)
        acp_copy(word_ga(me, rank), word_ga(rank, 64), 8, (acp_handle_t)ACP_HANDLE_NULL);
    acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    for (rank = 0; rank < procs; rank++)
        all[rank] = *my_word(rank);
    acp_sync();
}

/* Copies, and returns when it is done. */
static inline void copy_now(acp_ga_t dst, acp_ga_t src, size_t size)
{
    acp_handle_t handle = acp_copy(dst, src, size, (acp_handle_t)ACP_HANDLE_NULL);
    CHECK(handle > 0);
    acp_complete(handle);
}

#endif
