/* Workspaces: laid over all ranks, read and written at any offset by all of them. */
#include "data.h"

static void check(size_t size, size_t start, size_t chunk)
{
    int me = acp_rank(), procs = acp_procs(), rank;
    acp_wsd_t space;
    acp_ga_t mine;
    size_t offset, chunks = 0, i;
    if (chunk > 0)
        CHECK(acp_setparams_ws(start, chunk) == 0);
    space = acp_create_ws(size);
    CHECK(space != ACP_WSD_NULL && space->size_ws == size);
    if (chunk > 0) {
        size_t sum = 0;
        CHECK(space->size_default == chunk);
        chunks = space->ngas;
        CHECK(chunks == (size + chunk - 1) / chunk);
        for (i = 0; i < chunks; i++) {
            CHECK(space->procs[i] == (int)((start + i) % (size_t)procs));
            CHECK(acp_query_rank(space->gas[i]) == space->procs[i]);
            sum += (size_t)space->sizes[i];
        }
        CHECK(sum == size);
    }
    mine = acp_malloc(size + 8, me);
    CHECK(mine != ACP_GA_NULL);
    /* Each rank writes every procs-th piece of 13 bytes. */
    for (offset = 13 * (size_t)me; offset < size; offset += 13 * (size_t)procs) {
        size_t length = size - offset < 13 ? size - offset : 13;
        memset(acp_query_address(mine), (int)(offset / 13 % 251), 13);
        CHECK(acp_write_ws(space, mine, length, offset) == 0);
    }
    acp_sync();
    memset(acp_query_address(mine), 255, size + 8);
    CHECK(acp_read_ws(space, mine, size, 0) == 0);
    for (offset = 0; offset < size; offset++)
        CHECK(((unsigned char *)acp_query_address(mine))[offset] == offset / 13 % 251);
    CHECK(((unsigned char *)acp_query_address(mine))[size] == 255);
    for (rank = 0; rank < 5 && size > 20; rank++) {
        CHECK(acp_read_ws(space, mine, 17, size / 5 * (size_t)rank) == 0);
        CHECK(((unsigned char *)acp_query_address(mine))[0] == size / 5 * (size_t)rank / 13 % 251);
    }
    CHECK(acp_read_ws(space, mine, 8, size) == 1 && acp_write_ws(space, mine, size + 1, 0) == 1);
    acp_free(mine);
    acp_sync();
    if (chunks % 2)
        acp_free_ws(space);
    else
        acp_destroy_ws(space);
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    check(1000, 0, 0);
    check(1000, 0, 64);
    check(5000, 1 % (size_t)acp_procs(), 300);
    check(100, 0, 1000);
    check(4096, 0, 1024);
    check(100000, 2 % (size_t)acp_procs(), 33333);
    CHECK(acp_finalize() == 0);
    return 0;
}
