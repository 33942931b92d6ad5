/* Every language does the same in this program: messages around all processes, and collectives. With -DWITH_MPI it has an MPI; with
   -DOWN_TRUEF a filter of the name that the library has one of, too. */
#include "check.h"
#ifdef WITH_MPI
#include <mpi.h>
#endif

#ifdef OWN_TRUEF
static int called = 0;

int truef(int pbid, int rank)
{
    called += pbid + rank + 1;
    return 1;
}
#endif

enum { LONG = 100000 };

int main(int argc, char **argv)
{
    static double out[LONG], in[LONG];
    WAITIO_MPI_Comm all, heads;
    WAITIO_MPI_Request requests[4];
    int statuses[5], me, size, blocks, words[3], got[3], one = 1, sum = 0, code, from, place, counts[64], gathered[64], at;
    double mine, most;
    (void)argv;
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
#else
    (void)argc;
#endif
    CHECK(waitio_create_universe(&all) == 0 && waitio_init(10) == 0);
    CHECK(waitio_pb_size(&blocks) == 0 && waitio_pb_rank(&my_block) == 0 && waitio_get_nprocs(counts) == blocks);
    CHECK(waitio_group_rank(all, &me) == 0 && WAITIO_MPI_Comm_size(all, &size) == 0);
    for (my_rank = me, place = 0; place < my_block; place++)
        my_rank -= counts[place];
    CHECK(my_rank >= 0 && my_rank < counts[my_block]);
#ifdef WITH_MPI
    {
        int rank, ranks;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        CHECK(rank == my_rank && ranks == counts[my_block]);
    }
#endif
#ifdef OWN_TRUEF
    everybody(5);
    CHECK(called > 0);
#endif
    from = (me + size - 1) % size;
    words[0] = me;
    words[1] = my_block;
    words[2] = me * me;
    for (at = 0; at < LONG; at++)
        out[at] = me + at;
    memset(statuses, 0x77, sizeof statuses);
    CHECK(WAITIO_MPI_Irecv(got, 3, WAITIO_MPI_INT, from, -7, all, &requests[0]) == 0);
    CHECK(waitio_mpi_irecv(in, LONG, WAITIO_MPI_DOUBLE, from, 8, all, &requests[1]) == 0);
    CHECK(waitio_mpi_isend(words, 3, WAITIO_MPI_INT, (me + 1) % size, -7, all, &requests[2]) == 0);
    CHECK(WAITIO_MPI_Isend(out, LONG, WAITIO_MPI_DOUBLE, (me + 1) % size, 8, all, &requests[3]) == 0);
    CHECK(WAITIO_MPI_Waitall(4, requests, statuses) == 0);
    CHECK(statuses[0] == 0 && statuses[3] == 0 && statuses[4] == 0x77777777);
    CHECK(got[0] == from && got[2] == from * from && in[0] == from && in[LONG - 1] == from + LONG - 1);
    CHECK(waitio_mpi_allreduce(&one, &sum, 1, WAITIO_MPI_INT, WAITIO_MPI_SUM, all) == 0 && sum == size);
    mine = me;
    CHECK(WAITIO_MPI_Allreduce(&mine, &most, 1, WAITIO_MPI_DOUBLE, WAITIO_MPI_MAX, all) == 0 && most == size - 1);
    code = me == size - 1 ? 4242 : 0;
    CHECK(waitio_mpi_bcast(&code, 1, WAITIO_MPI_INT, size - 1, all) == 0 && code == 4242);
    CHECK(waitio_mpi_gather(&me, gathered, 1, WAITIO_MPI_INT, 0, all) == 0);
    for (place = 0; me == 0 && place < size; place++)
        CHECK(gathered[place] == place);
    CHECK(WAITIO_Create_universe_pbhead(&heads) == 0 && waitio_group_rank(heads, &place) == 0);
    if (place >= 0) {
        CHECK(place == my_block && waitio_mpi_allgather(&my_block, gathered, 1, WAITIO_MPI_INT, heads) == 0);
        for (place = 0; place < blocks; place++)
            CHECK(gathered[place] == place);
    }
    CHECK(WAITIO_MPI_Barrier(all) == 0);
    printf("ok %d %d of %d\n", my_block, my_rank, counts[my_block]);
    fflush(stdout);
#ifdef WITH_MPI
    if (my_block % 2)
        CHECK(waitio_finalize() == 0);
    MPI_Finalize();
#endif
    return 0;
}
