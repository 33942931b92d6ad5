/* What the programs of WaitIO share. C and C++. */
#ifndef WAITIO_CHECK_H
#define WAITIO_CHECK_H

#include <waitio_mpi.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int my_block = -1, my_rank = -1;

#define CHECK(what)                                                                                                        \
    do {                                                                                                                   \
        if (!(what)) {                                                                                                     \
            fprintf(stderr, "block %d rank %d: %s:%d: this should be: %s (%s)\n", my_block, my_rank, __FILE__, __LINE__, #what, \
                waitio_error());                                                                                           \
            exit(3);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* Nobody waits longer than that for somebody who is gone. */
#define SOON 5.0

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline void take_nap(int milliseconds)
{
    usleep((useconds_t)milliseconds * 1000);
}

/* The group of everybody, by a filter, in the order of the blocks. Says who this is. */
static inline waitio_group_t everybody(int gid)
{
    int blocks, block, order[64], members, me, counts[64], before = 0;
    waitio_filter_func_t filters[64];
    waitio_group_t group;
    CHECK(waitio_pb_size(&blocks) == 0 && blocks <= 64);
    CHECK(waitio_pb_rank(&my_block) == 0);
    for (block = 0; block < blocks; block++) {
        filters[block] = truef;
        order[block] = block;
    }
    group = waitio_create_group(gid, filters, order);
    CHECK(group != NULL);
    CHECK(waitio_group_size(group, &members) == 0 && waitio_group_rank(group, &me) == 0);
    CHECK(waitio_get_nprocs(counts) == blocks);
    for (block = 0; block < my_block; block++)
        before += counts[block];
    my_rank = me - before;
    return group;
}

#endif
