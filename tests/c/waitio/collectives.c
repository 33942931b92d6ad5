/* Every collective, type and operation, in a group of everybody and in one whose members are in another order; and by several threads. C and C++. */
#include "check.h"
#include <pthread.h>

static int me, size;

/* A type of C with a sum, its largest, and, of integers, bits. */
#define NUMBERS(type, name)                                                                                              \
    do {                                                                                                                 \
        type mine[3], all[3];                                                                                            \
        int bytes = 0, at;                                                                                               \
        CHECK(waitio_mpi_type_size(name, &bytes) == 0 && bytes == (int)sizeof(type));                                    \
        for (at = 0; at < 3; at++)                                                                                       \
            mine[at] = (type)(me + at);                                                                                  \
        CHECK(waitio_mpi_allreduce(mine, all, 3, name, WAITIO_MPI_SUM, comm) == 0);                                      \
        CHECK(all[0] == (type)(size * (size - 1) / 2) && all[2] == (type)(size * (size - 1) / 2 + 2 * size));            \
        CHECK(waitio_mpi_allreduce(mine, all, 3, name, WAITIO_MPI_MAX, comm) == 0 && all[1] == (type)size);              \
        CHECK(waitio_mpi_allreduce(mine, all, 3, name, WAITIO_MPI_MIN, comm) == 0 && all[0] == (type)0);                 \
        CHECK(waitio_mpi_allreduce(mine, all, 3, name, WAITIO_MPI_LAND, comm) == 0 && all[0] == (type)0 && all[1] == (type)1); \
        CHECK(waitio_mpi_allreduce(mine, all, 3, name, WAITIO_MPI_LOR, comm) == 0 && all[0] == (type)(size > 1));                 \
        mine[0] = 2;                                                                                                     \
        CHECK(waitio_mpi_allreduce(mine, all, 1, name, WAITIO_MPI_PROD, comm) == 0 && all[0] == (type)(1 << size));      \
        CHECK(waitio_mpi_allreduce(mine, all, 1, name, WAITIO_MPI_LXOR, comm) == 0 && all[0] == (type)(size % 2));       \
    } while (0)

#define INTEGERS(type, name)                                                                                             \
    do {                                                                                                                 \
        type mine = (type)(1 << me | 64), all;                                                                           \
        NUMBERS(type, name);                                                                                             \
        CHECK(waitio_mpi_allreduce(&mine, &all, 1, name, WAITIO_MPI_BAND, comm) == 0 && all == (type)64);                \
        CHECK(waitio_mpi_allreduce(&mine, &all, 1, name, WAITIO_MPI_BOR, comm) == 0 && all == (type)(64 | ((1 << size) - 1))); \
        CHECK(waitio_mpi_allreduce(&mine, &all, 1, name, WAITIO_MPI_BXOR, comm) == 0);                                   \
        CHECK(all == (type)((size % 2) * 64 | ((1 << size) - 1)));                                                       \
    } while (0)

static void types(WAITIO_MPI_Comm comm)
{
    float wave[4], waves[4];
    double sound[2], sounds[2];
    INTEGERS(int, WAITIO_MPI_INT);
    INTEGERS(long, WAITIO_MPI_LONG);
    INTEGERS(signed char, WAITIO_MPI_CHAR);
    INTEGERS(signed char, WAITIO_MPI_SIGNED_CHAR);
    INTEGERS(short, WAITIO_MPI_SHORT);
    INTEGERS(long long, WAITIO_MPI_LONG_LONG);
    INTEGERS(unsigned char, WAITIO_MPI_UNSIGNED_CHAR);
    INTEGERS(unsigned short, WAITIO_MPI_UNSIGNED_SHORT);
    INTEGERS(unsigned, WAITIO_MPI_UNSIGNED);
    INTEGERS(unsigned long, WAITIO_MPI_UNSIGNED_LONG);
    INTEGERS(unsigned long long, WAITIO_MPI_UNSIGNED_LONG_LONG);
    INTEGERS(unsigned char, WAITIO_MPI_BYTE);
    INTEGERS(int, WAITIO_MPI_LOGICAL);
    NUMBERS(float, WAITIO_MPI_FLOAT);
    NUMBERS(double, WAITIO_MPI_DOUBLE);
    wave[0] = 0;
    wave[1] = 1;
    wave[2] = wave[3] = (float)me;
    CHECK(waitio_mpi_allreduce(wave, waves, 2, WAITIO_MPI_COMPLEX, WAITIO_MPI_SUM, comm) == 0);
    CHECK(waves[0] == 0 && waves[1] == size && waves[3] == size * (size - 1) / 2);
    sound[0] = 0;
    sound[1] = 1;
    CHECK(waitio_mpi_allreduce(sound, sounds, 1, WAITIO_MPI_DOUBLE_COMPLEX, WAITIO_MPI_PROD, comm) == 0);
    CHECK(sounds[0] == (size % 2 ? 0 : size % 4 ? -1 : 1) && sounds[1] == (size % 2 == 0 ? 0 : size % 4 == 1 ? 1 : -1));
}

static void moves(WAITIO_MPI_Comm comm)
{
    int counts[64], places[64], out[64], in[256], at, root, sum, total = 0;
    WAITIO_MPI_Request requests[4];
    int statuses[4] = {9, 9, 9, 9}, index, flag, word = me, result = -1, far = 0, all = 0;
    static double field[30000];
    CHECK(WAITIO_MPI_Barrier(comm) == 0);
    for (root = 0; root < size; root++) {
        for (at = 0; at < 30000; at++)
            field[at] = me == root ? at + root : -1;
        CHECK(waitio_mpi_bcast(field, 30000, WAITIO_MPI_DOUBLE, root, comm) == 0 && field[29999] == 29999 + root);
        /* Only the root needs a place for the result. */
        sum = -1;
        CHECK(WAITIO_MPI_Reduce(&me, me == root ? &sum : NULL, 1, WAITIO_MPI_INT, WAITIO_MPI_SUM, root, comm) == 0);
        CHECK(sum == (me == root ? size * (size - 1) / 2 : -1));
        sum = me;
        CHECK(waitio_mpi_reduce(me == root ? WAITIO_MPI_IN_PLACE : &sum, &sum, 1, WAITIO_MPI_INT, WAITIO_MPI_MAX, root, comm) == 0);
        CHECK(sum == (me == root ? size - 1 : me));
        memset(in, 0xff, sizeof in);
        out[0] = me;
        out[1] = me * me;
        CHECK(waitio_mpi_gather(out, in, 2, WAITIO_MPI_INT, root, comm) == 0);
        for (at = 0; me == root && at < size; at++)
            CHECK(in[2 * at] == at && in[2 * at + 1] == at * at);
        CHECK(in[2 * size] == -1 && (me == root || in[0] == -1));
        in[me] = me;
        CHECK(waitio_mpi_gather(me == root ? WAITIO_MPI_IN_PLACE : &in[me], in, 1, WAITIO_MPI_INT, root, comm) == 0);
        CHECK(me != root || (in[0] == 0 && in[size - 1] == size - 1));
        for (at = 0; at < size; at++)
            in[at] = 100 * root + at;
        sum = -1;
        CHECK(waitio_mpi_scatter(in, 1, WAITIO_MPI_INT, &sum, 1, WAITIO_MPI_INT, root, comm) == 0 && sum == 100 * root + me);
        sum = 100 * root + me;
        CHECK(WAITIO_MPI_Scatter(in, 1, WAITIO_MPI_INT, me == root ? WAITIO_MPI_IN_PLACE : &sum, 1, WAITIO_MPI_INT, root, comm) == 0);
        CHECK(sum == 100 * root + me);
    }
    /* Member m has m + 1 elements, which lie apart and in the opposite order. */
    for (at = 0; at < size; at++)
        total += (counts[at] = at + 1) + 1;
    for (at = 0, places[0] = total; at < size; at++)
        places[at] = (at ? places[at - 1] : total) - counts[at] - 1;
    for (at = 0; at <= me; at++)
        out[at] = 10 * me + at;
    for (root = 0; root < size; root += 2) {
        memset(in, 0xff, sizeof in);
        CHECK(waitio_mpi_gatherv(out, me + 1, WAITIO_MPI_INT, in, counts, places, WAITIO_MPI_INT, root, comm) == 0);
        for (at = 0; me == root && at < size; at++)
            CHECK(in[places[at]] == 10 * at && in[places[at] + at] == 11 * at && in[places[at] + at + 1] == -1);
        memset(in, 0xff, sizeof in);
        for (at = 0; me == root && at < size; at++)
            in[places[at] + at] = 7 * at;
        memset(field, 0, 1024);
        CHECK(waitio_mpi_scatterv(in, counts, places, WAITIO_MPI_INT, field, me + 1, WAITIO_MPI_INT, root, comm) == 0);
        CHECK(((int *)field)[me] == 7 * me && (me == 0 || ((int *)field)[0] == -1) && ((int *)field)[me + 1] == 0);
    }
    memset(in, 0xff, sizeof in);
    CHECK(waitio_mpi_allgatherv(out, me + 1, WAITIO_MPI_INT, in, counts, places, WAITIO_MPI_INT, comm) == 0);
    for (at = 0; at < size; at++)
        CHECK(in[places[at]] == 10 * at && in[places[at] + at] == 11 * at && in[places[at] + at + 1] == -1);
    CHECK(waitio_mpi_allgatherv(WAITIO_MPI_IN_PLACE, 0, WAITIO_MPI_INT, in, counts, places, WAITIO_MPI_INT, comm) == 0);
    CHECK(in[places[size - 1] + size - 1] == 11 * (size - 1));
    CHECK(waitio_mpi_allgather(&me, in, 1, WAITIO_MPI_INT, comm) == 0 && in[0] == 0 && in[size - 1] == size - 1);
    in[me] = 2 * me;
    CHECK(WAITIO_MPI_Allgather(WAITIO_MPI_IN_PLACE, in, 1, WAITIO_MPI_INT, comm) == 0 && in[size - 1] == 2 * (size - 1));
    for (at = 0; at < size; at++)
        out[at] = 100 * me + at;
    CHECK(waitio_mpi_alltoall(out, in, 1, WAITIO_MPI_INT, comm) == 0);
    for (at = 0; at < size; at++)
        CHECK(in[at] == 100 * at + me);
    sum = me;
    CHECK(waitio_mpi_allreduce(WAITIO_MPI_IN_PLACE, &sum, 1, WAITIO_MPI_INT, WAITIO_MPI_SUM, comm) == 0 && sum == size * (size - 1) / 2);
    /* Started, and waited for in another order. */
    far = me == size - 1 ? 77 : 0;
    CHECK(waitio_mpi_ibarrier(comm, &requests[0]) == 0);
    CHECK(waitio_mpi_ibcast(&far, 1, WAITIO_MPI_INT, size - 1, comm, &requests[1]) == 0);
    CHECK(waitio_mpi_ireduce(&word, &result, 1, WAITIO_MPI_INT, WAITIO_MPI_SUM, 0, comm, &requests[2]) == 0);
    CHECK(WAITIO_MPI_Iallreduce(&word, &all, 1, WAITIO_MPI_INT, WAITIO_MPI_MAX, comm, &requests[3]) == 0);
    CHECK(waitio_mpi_wait(&requests[3], &statuses[0]) == 0 && statuses[0] == 0 && all == size - 1);
    CHECK(waitio_mpi_waitany(4, requests, &index, NULL) == 0 && index >= 0 && index < 3);
    for (flag = 0; !flag;)
        CHECK(waitio_mpi_testany(2, requests, &index, &flag, &statuses[1]) == 0);
    CHECK(waitio_mpi_waitall(4, requests, statuses) == 0 && statuses[3] == 0 && far == 77);
    CHECK(result == (me == 0 ? size * (size - 1) / 2 : -1));
}

/* Threads of one process in a conversation each. */
static WAITIO_MPI_Comm talked;

static void *talk(void *argument)
{
    int tag = *(int *)argument, turn, got, word, flag;
    size_t bytes;
    WAITIO_MPI_Request request;
    for (turn = 0; turn < 200; turn++) {
        word = me * 1000 + turn;
        CHECK(waitio_mpi_isend(&word, 1, WAITIO_MPI_INT, (me + 1) % size, tag, talked, &request) == 0);
        if (turn % 3 == 0)
            CHECK(waitio_mpi_probe((me + size - 1) % size, tag, talked, &bytes) == 0 && bytes == 4);
        if (turn % 5 == 0)
            CHECK(waitio_mpi_iprobe((me + size - 1) % size, tag, talked, &flag, &bytes) == 0);
        CHECK(waitio_mpi_recv(&got, 1, WAITIO_MPI_INT, (me + size - 1) % size, tag, talked) == 0);
        CHECK(got == (me + size - 1) % size * 1000 + turn);
        CHECK(waitio_mpi_wait(&request, NULL) == 0);
    }
    return NULL;
}

int main(void)
{
    WAITIO_MPI_Comm all, other;
    pthread_t threads[3];
    int tags[3] = {1, 2, 3}, at, word = 5, blocks, order[64];
    waitio_filter_func_t filters[64];
    CHECK(waitio_create_universe(&all) == 0);
    CHECK(waitio_pb_rank(&my_block) == 0 && waitio_pb_size(&blocks) == 0);
    CHECK(waitio_mpi_comm_rank(all, &me) == 0 && waitio_mpi_comm_size(all, &size) == 0);
    my_rank = me;
    /* What one member has is combined with nothing. */
    if (size > 1)
        types(all);
    moves(all);
    for (at = 0; at < blocks; at++) {
        order[at] = -at;
        filters[at] = truef;
    }
    other = waitio_create_group(3, filters, order);
    CHECK(other != NULL && waitio_group_rank(other, &me) == 0);
    moves(other);
    talked = all;
    CHECK(waitio_group_rank(all, &me) == 0);
    for (at = 0; at < 3; at++)
        CHECK(pthread_create(&threads[at], NULL, talk, &tags[at]) == 0);
    for (at = 0; at < 3; at++)
        pthread_join(threads[at], NULL);
    if (size > 1 && me == 0)
        CHECK(waitio_mpi_send(&word, 1, WAITIO_MPI_INT, 1, 0, all) == 0);
    if (me == 1)
        CHECK(waitio_mpi_recv(&word, 1, WAITIO_MPI_INT, 0, 0, all) == 0 && word == 5);
    CHECK(waitio_mpi_barrier(all) == 0);
    printf("ok\n");
    return 0;
}
