/* A process of one part of a job: MPI within the part, if it is compiled with USE_MPI, and ACP across all parts.
 *
 * Arguments: the number of the part's first rank, how many ranks it has, how many all parts have, and what to do. */
#include "check.h"
#include <signal.h>
#include <unistd.h>
#ifdef USE_MPI
#include <mpi.h>
#endif

static int is(const char *what, const char *name)
{
    return strcmp(what, name) == 0;
}

/* Every rank writes to the next one, counts on the first, and puts its number into one map. */
static void meet(int procs)
{
    int me = acp_rank(), rank, *ranks = (int *)malloc((size_t)procs * sizeof(int));
    uint64_t all[16], *data;
    acp_map_t map;
    acp_pair_t pair;
    CHECK(procs <= 16);
    exchange(1000 + (uint64_t)me, all);
    for (rank = 0; rank < procs; rank++)
        CHECK(all[rank] == 1000 + (uint64_t)rank);

    *my_word(70) = 7 + (uint64_t)me;
    copy_now(word_ga((me + 1) % procs, 71), word_ga(me, 70), 8);
    acp_complete(acp_add8(word_ga(me, 72), word_ga(0, 73), 1, (acp_handle_t)ACP_HANDLE_NULL));
    acp_sync();
    CHECK(*my_word(71) == 7 + (uint64_t)((me + procs - 1) % procs));
    CHECK(me != 0 || *my_word(73) == (uint64_t)procs);

    for (rank = 0; rank < procs; rank++)
        ranks[rank] = rank;
    if (me == 0)
        map = acp_create_map(procs, ranks, 4, procs - 1);
    exchange(me == 0 ? map.ga : 0, all);
    map.ga = all[0];
    map.num_ranks = (uint64_t)procs;
    map.num_slots = 4;
    pair.first.ga = acp_malloc(16, me);
    CHECK(pair.first.ga != ACP_GA_NULL);
    data = (uint64_t *)acp_query_address(pair.first.ga);
    data[0] = (uint64_t)me;
    data[1] = 5;
    pair.second.ga = pair.first.ga + 8;
    pair.first.size = pair.second.size = 8;
    CHECK(acp_insert_map(map, pair) == 1);
    acp_sync();
    CHECK(acp_size_map(map) == (size_t)procs);
    acp_sync();
    acp_free(pair.first.ga);
    if (me == 0)
        acp_destroy_map(map);
    free(ranks);
}

int main(int argc, char **argv)
{
    int first, size, procs, round, rank_in_part = -1;
    const char *what = argc > 4 ? argv[4] : "";
    if (is(what, "never"))
        return 0;
    if (is(what, "late"))
        for (;;)
            pause();
#ifdef USE_MPI
    if (!is(what, "acp first"))
        MPI_Init(&argc, &argv);
#endif
    for (round = 0; round < 2; round++) {
        CHECK(acp_init(&argc, &argv) == 0);
        first = atoi(argv[1]);
        size = atoi(argv[2]);
        procs = atoi(argv[3]);
#ifdef USE_MPI
        if (round == 0 && is(what, "acp first"))
            MPI_Init(&argc, &argv);
#endif
        CHECK(acp_procs() == procs && acp_rank() >= first && acp_rank() < first + size);
        meet(procs);
#ifdef USE_MPI
        {
            int count, me = acp_rank(), sum = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank_in_part);
            MPI_Comm_size(MPI_COMM_WORLD, &count);
            CHECK(acp_rank() == first + rank_in_part && count == size);
            MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK(sum == size * first + size * (size - 1) / 2);
        }
#endif
        if (is(what, "exit")) {
            if (acp_rank() == first + size - 1)
                exit(42);
            /* Not to end in the same moment: a launcher tells of the one that it looks at first. */
            for (;;)
                pause();
        }
        if (is(what, "abort") && acp_rank() == first)
            acp_abort("the sky is falling");
        if (is(what, "wait")) {
            if (acp_rank() == 0) {
                printf("all are there\n");
                fflush(stdout);
            }
            for (;;)
                pause();
        }
        CHECK(acp_finalize() == 0);
    }
#ifdef USE_MPI
    MPI_Finalize();
#endif
    printf("rank %d of part at %d is done\n", rank_in_part, first);
    return 0;
}
