/* acp_init and its options, acp_finalize, acp_reset, acp_sync, acp_rank, acp_procs; starter memory. */
#include "check.h"

#define MAX_PROCS 64

static void check_starter(void)
{
    int rank, procs = acp_procs(), me = acp_rank();
    uint64_t all[MAX_PROCS];
    for (rank = 0; rank < 128; rank++)
        CHECK(*my_word(rank) == 0);
    acp_sync();
    for (rank = 0; rank < procs; rank++) {
        CHECK(acp_query_starter_ga(rank) != ACP_GA_NULL);
        CHECK(acp_query_rank(acp_query_starter_ga(rank)) == rank);
        CHECK((acp_query_address(acp_query_starter_ga(rank)) != NULL) == (rank == me));
    }
    exchange(100 + (uint64_t)me, all);
    for (rank = 0; rank < procs; rank++)
        CHECK(all[rank] == 100 + (uint64_t)rank);
}

int main(int argc, char **argv)
{
    int life, me, procs;
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc == 4 && argv[4] == NULL);
    CHECK(strcmp(argv[1], "one") == 0 && strcmp(argv[2], "-x") == 0 && strcmp(argv[3], "two") == 0);
    me = acp_rank();
    procs = acp_procs();
    CHECK(procs >= 1 && procs <= MAX_PROCS && me >= 0 && me < procs);
    CHECK(getenv("EXPECTED_PROCS") == NULL || procs == atoi(getenv("EXPECTED_PROCS")));
    CHECK(acp_colors() >= 1);
    for (life = 0; life < 3; life++) {
        check_starter();
        /* The others may still be reading. */
        CHECK(acp_sync() == 0);
        CHECK(acp_reset((acp_rank() + 1) % procs) == 0);
        CHECK(acp_procs() == procs && acp_rank() == (me + 1) % procs);
        check_starter();
        acp_sync();
        /* Who keeps the new number has the old one again in the next world. */
        if (life != 1) {
            CHECK(acp_reset(me) == 0);
            CHECK(acp_rank() == me);
            check_starter();
        }
        CHECK(acp_finalize() == 0);
        CHECK(acp_init(&argc, &argv) == 0);
        CHECK(argc == 4 && acp_rank() == me && acp_procs() == procs);
    }
    CHECK(acp_finalize() == 0);
    return 0;
}
