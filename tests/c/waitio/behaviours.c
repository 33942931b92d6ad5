/* What programs of WaitIO rely on, one thing a run: its name is the argument. C and C++, in every block the same program. */
#include "check.h"

static int odd(int pbid, int rank)
{
    (void)pbid;
    return rank % 2;
}

static int second_block(int pbid, int rank)
{
    (void)rank;
    return pbid == 1;
}

/* 1. Members are numbered by the order of their blocks, and by rank within. */
static void numbering(void)
{
    int blocks, block, counts[64], order[64], size, rank, expected = 0, total = 0;
    int first[] = {0, -1}, none[] = {-1}, all[64], *lists[64];
    waitio_filter_func_t filters[64];
    waitio_group_t group, pb, heads;
    everybody(1);
    CHECK(waitio_pb_size(&blocks) == 0 && waitio_get_nprocs(counts) == blocks && blocks >= 2);

    /* The last block first. */
    for (block = 0; block < blocks; block++) {
        filters[block] = truef;
        order[block] = 100 - block;
        total += counts[block];
        if (block > my_block)
            expected += counts[block];
    }
    group = waitio_create_group(2, filters, order);
    CHECK(waitio_group_rank(group, &rank) == 0 && rank == expected + my_rank);
    CHECK(waitio_group_size(group, &size) == 0 && size == total);

    /* Nobody of block 0, the odd ranks of the others; whoever is no member learns so. */
    filters[0] = NULL;
    for (block = 1, size = 0, expected = 0; block < blocks; block++) {
        filters[block] = odd;
        order[block] = block;
        size += counts[block] / 2;
        if (block < my_block)
            expected += counts[block] / 2;
    }
    order[0] = 0;
    group = waitio_create_group(3, filters, order);
    CHECK(group != NULL && waitio_group_rank(group, &rank) == 0);
    CHECK(rank == (my_block > 0 && my_rank % 2 ? expected + my_rank / 2 : -1));
    CHECK(waitio_group_size(group, &total) == 0 && total == size);

    /* By lists. */
    for (block = 0; block < blocks; block++)
        lists[block] = NULL;
    for (rank = 0; rank < counts[1]; rank++)
        all[rank] = rank;
    all[counts[1]] = -1;
    lists[0] = first;
    lists[1] = all;
    order[0] = 7;
    order[1] = -7;
    group = waitio_create_group_wranks(4, lists, order);
    CHECK(group != NULL && waitio_group_size(group, &size) == 0 && size == counts[1] + 1);
    CHECK(waitio_group_rank(group, &rank) == 0);
    CHECK(rank == (my_block == 1 ? my_rank : my_block == 0 && my_rank == 0 ? counts[1] : -1));
    lists[0] = none;
    group = waitio_create_group_wranks(5, lists, order);
    CHECK(group != NULL && waitio_group_size(group, &size) == 0 && size == counts[1]);

    /* Those that are known by name. */
    CHECK(waitio_create_pbgroup(&pb, 1) == 0 && waitio_mpi_comm_size(pb, &size) == 0 && size == counts[1]);
    CHECK(WAITIO_MPI_Comm_rank(pb, &rank) == 0 && rank == (my_block == 1 ? my_rank : -1));
    CHECK(waitio_create_universe_pbhead(&heads) == 0 && waitio_group_size(heads, &size) == 0 && size == blocks);
    CHECK(waitio_group_rank(heads, &rank) == 0 && rank == (my_rank == 0 ? my_block : -1));
    for (block = 0; block < blocks; block++)
        filters[block] = second_block;
    group = waitio_create_group(6, filters, order);
    CHECK(waitio_group_size(group, &size) == 0 && size == counts[1]);
    CHECK(waitio_free_group(&group) == 0 && group == NULL);
    CHECK(waitio_mpi_comm_free(&pb) == 0 && pb == NULL);
}

/* 2. First in, first out for each group, source and tag, in the order of the receives; groups never meet. */
static void order(void)
{
    waitio_group_t one = everybody(1), two = everybody(2);
    waitio_req_t sends[40], receives[40];
    int size, me, turn, values[40], got[40];
    char byte = 0;
    CHECK(waitio_group_size(one, &size) == 0 && waitio_group_rank(one, &me) == 0);
    memset(receives, 0xab, sizeof receives);
    for (turn = 0; turn < 20; turn++) {
        values[turn] = 1000 * me + turn;
        values[20 + turn] = 1000 * me + 500 + turn;
        CHECK(waitio_isend(two, (me + 1) % size, (char *)&values[20 + turn], 4, 9, &sends[20 + turn]) == 0);
        CHECK(waitio_isend(one, (me + 1) % size, (char *)&values[turn], 4, 9, &sends[turn]) == 0);
    }
    /* The second half is asked for first, and waited for last. */
    for (turn = 0; turn < 20; turn++) {
        CHECK(waitio_irecv(one, (me + size - 1) % size, (char *)&got[turn], 4, 9, &receives[turn]) == 0);
        CHECK(waitio_irecv(two, (me + size - 1) % size, (char *)&got[20 + turn], 4, 9, &receives[20 + turn]) == 0);
    }
    for (turn = 39; turn >= 0; turn--)
        CHECK(waitio_wait(&receives[turn]) == 0);
    for (turn = 0; turn < 40; turn++)
        CHECK(got[turn] == 1000 * ((me + size - 1) % size) + (turn < 20 ? turn : 480 + turn));
    CHECK(waitio_waitall(40, sends) == 0);
    /* Once more: it is done. */
    CHECK(waitio_wait(&sends[0]) == 0 && waitio_wait(&receives[0]) == 0);
    /* All 64 bits of a tag count. */
    CHECK(waitio_isend(one, (me + 1) % size, (char *)&values[0], 4, 0x100000009UL, &sends[0]) == 0);
    CHECK(waitio_isend(one, (me + 1) % size, (char *)&values[1], 4, ~0UL, &sends[1]) == 0);
    CHECK(waitio_isend(one, (me + 1) % size, &byte, 0, 0, &sends[2]) == 0);
    CHECK(waitio_irecv(one, (me + size - 1) % size, (char *)&got[1], 400, ~0UL, &receives[1]) == 0);
    CHECK(waitio_irecv(one, (me + size - 1) % size, (char *)&got[0], 4, 0x100000009UL, &receives[0]) == 0);
    CHECK(waitio_irecv(one, (me + size - 1) % size, &byte, 0, 0, &receives[2]) == 0);
    CHECK(waitio_waitall(3, receives) == 0 && waitio_waitall(3, sends) == 0);
    CHECK(got[0] == 1000 * ((me + size - 1) % size) && got[1] == got[0] + 1);
}

/* 3. A wait progresses everything; both directions at any size, and nobody deadlocks. */
static void progress(void)
{
    waitio_group_t all = everybody(1);
    size_t most = 6 << 20, bytes;
    char *out = (char *)malloc(most), *in = (char *)malloc(most);
    waitio_req_t send, receive, late;
    int size, me, word = 0;
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    for (bytes = 4; bytes <= most; bytes = bytes * 3 + 1) {
        memset(out, me + (int)(bytes % 7), bytes);
        memset(in, 99, bytes);
        /* The send is waited for first, whose receive the other has posted and does not wait for. */
        CHECK(waitio_irecv(all, (me + size - 1) % size, in, bytes, 5, &receive) == 0);
        CHECK(waitio_isend(all, (me + 1) % size, out, bytes, 5, &send) == 0);
        CHECK(waitio_wait(&send) == 0 && waitio_wait(&receive) == 0);
        CHECK(in[0] == (me + size - 1) % size + (int)(bytes % 7) && in[bytes - 1] == in[0]);
    }
    /* A long receive is served while another one is waited for, which comes only then. */
    CHECK(waitio_irecv(all, (me + size - 1) % size, in, most, 6, &receive) == 0);
    CHECK(waitio_irecv(all, (me + size - 1) % size, (char *)&word, 4, 7, &late) == 0);
    memset(out, 50 + me, most);
    CHECK(waitio_isend(all, (me + 1) % size, out, most, 6, &send) == 0 && waitio_wait(&send) == 0);
    CHECK(waitio_isend(all, (me + 1) % size, (char *)&me, 4, 7, &send) == 0 && waitio_wait(&send) == 0);
    CHECK(waitio_wait(&late) == 0 && word == (me + size - 1) % size);
    CHECK(waitio_wait(&receive) == 0 && in[most - 1] == 50 + word);
    /* So does a collective, also one that is not the first: who is in it already takes, and sends on, what others wait for. */
    for (bytes = 3; bytes > 0; bytes--) {
        static waitio_req_t few[200];
        static int words[200];
        int turn;
        CHECK(waitio_mpi_barrier(all) == 0);
        memset(out, 60 + me, most);
        CHECK(waitio_irecv(all, (me + size - 1) % size, in, most, 8, &receive) == 0);
        CHECK(waitio_isend(all, (me + 1) % size, out, most, 8, &send) == 0);
        for (turn = 0; me == 0 && turn < 200; turn++)
            CHECK(waitio_isend(all, 1, (char *)&turn, 4, 9, &few[turn]) == 0);
        for (turn = 0; me == 1 && turn < 200; turn++)
            CHECK(waitio_irecv(all, 0, (char *)&words[turn], 4, 9, &few[turn]) == 0 &&
                  waitio_wait(&few[turn]) == 0 && words[turn] == turn);
        if (me % 2 == 1)
            CHECK(waitio_wait(&send) == 0);
        CHECK(waitio_mpi_barrier(all) == 0);
        if (me % 2 == 0)
            CHECK(waitio_wait(&send) == 0);
        CHECK(waitio_wait(&receive) == 0 && in[most - 1] == 60 + word);
        if (me == 0)
            CHECK(waitio_waitall(200, few) == 0);
    }
    free(out);
    free(in);
}

/* 4. What was sent survives the exit of its sender, which does not finalize. */
static void survival(void)
{
    waitio_group_t all = everybody(1);
    static int words[100][300];
    int me, size, turn, from;
    waitio_req_t request;
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    if (my_block == 1) {
        for (turn = 0; turn < 3; turn++) {
            memset(words[turn], me + turn, sizeof words[turn]);
            CHECK(waitio_isend(all, 0, (char *)words[turn], turn == 0 ? 4 : sizeof words[turn], (unsigned long)turn, &request) == 0);
            CHECK(waitio_wait(&request) == 0);
        }
        exit(0);
    }
    if (me != 0)
        return;
    take_nap(1000);
    for (from = 1; from < size; from++) {
        int counts[64];
        waitio_get_nprocs(counts);
        if (from < counts[0] || from >= counts[0] + counts[1])
            continue;
        for (turn = 0; turn < 3; turn++) {
            CHECK(waitio_irecv(all, from, (char *)words[turn], sizeof words[turn], (unsigned long)turn, &request) == 0);
            CHECK(waitio_wait(&request) == 0);
            CHECK(((char *)words[turn])[3] == from + turn);
        }
    }
}

/* 5. Somebody who is gone is an error, soon, and neither a hang nor the end of this process. */
static void loss(const char *how)
{
    waitio_group_t all = everybody(1);
    static char memory[1 << 22];
    waitio_req_t request;
    int me, size, turn, from;
    double began;
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    CHECK(waitio_mpi_barrier(all) == 0);
    /* A barrier may fail if somebody dies who has left it already: nobody does before all the others have said that they have left it, too. */
    if (my_block == 1) {
        for (from = 0; from < size - 1; from++)
            CHECK(waitio_irecv(all, from, memory, 4, 9, &request) == 0 && waitio_wait(&request) == 0);
        if (strcmp(how, "kill") == 0)
            kill(getpid(), 9);
        _exit(strcmp(how, "exit") == 0 ? 7 : 0);
    }
    CHECK(waitio_isend(all, size - 1, (char *)&me, 4, 9, &request) == 0);
    (void)waitio_wait(&request); /* it may be gone as soon as it has this */
    began = now();
    CHECK(waitio_irecv(all, size - 1, memory, 4, 1, &request) != 0 || waitio_wait(&request) != 0);
    CHECK(now() - began < SOON);
    CHECK(strstr(waitio_error(), "rank 0 of block 1") != NULL);
    /* A producer leaves its loop. */
    for (turn = 0; turn < 100000 && now() - began < 2 * SOON; turn++) {
        if (waitio_isend(all, size - 1, memory, 64, 1, &request) != 0 || waitio_wait(&request) != 0)
            break;
    }
    CHECK(turn < 100000 && now() - began < 2 * SOON);
    CHECK(waitio_isend(all, size - 1, memory, sizeof memory, 2, &request) != 0 || waitio_wait(&request) != 0);
    CHECK(waitio_mpi_barrier(all) != 0);
    CHECK(now() - began < 3 * SOON);
    /* The others still talk to each other. */
    if (me < 2 && size > 2) {
        CHECK(waitio_isend(all, 1 - me, (char *)&me, 4, 3, &request) == 0 && waitio_wait(&request) == 0);
        CHECK(waitio_irecv(all, 1 - me, (char *)&turn, 4, 3, &request) == 0 && waitio_wait(&request) == 0 && turn == 1 - me);
    }
}

/* 6. An init that fails makes everything behind it fail. */
static void failed_init(void)
{
    waitio_filter_func_t filters[] = {truef, truef};
    int order[] = {0, 1}, size;
    waitio_group_t group;
    waitio_req_t request;
    CHECK(waitio_create_group(1, filters, order) == NULL);
    CHECK(waitio_init(1) != 0);
    CHECK(strstr(waitio_error(), "waitio_init") != NULL);
    CHECK(waitio_create_group(1, filters, order) == NULL);
    CHECK(waitio_create_universe(&group) != 0 && group == NULL);
    CHECK(waitio_pb_size(&size) != 0);
    CHECK(waitio_isend(group, 0, (char *)&size, 4, 1, &request) != 0);
    CHECK(waitio_wait(&request) != 0);
    CHECK(waitio_finalize() != 0);
}

/* 8. From 4 bytes up, and thousands of requests. */
static void many(void)
{
    enum { MANY = 4000 };
    waitio_group_t all = everybody(1);
    static waitio_req_t sends[MANY], receives[MANY];
    static int out[MANY], in[MANY];
    int me, size, turn, index, done, left;
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    for (turn = 0; turn < MANY; turn++) {
        in[turn] = -1;
        CHECK(waitio_irecv(all, (me + size - 1) % size, (char *)&in[turn], 4, (unsigned long)(turn % 10), &receives[turn]) == 0);
    }
    for (turn = 0; turn < MANY; turn++) {
        out[turn] = me * MANY + turn;
        CHECK(waitio_isend(all, (me + 1) % size, (char *)&out[turn], 4, (unsigned long)(turn % 10), &sends[turn]) == 0);
    }
    CHECK(waitio_waitall(MANY / 2, sends) == 0);
    for (left = 100; left > 0; left--)
        CHECK(waitio_waitany(100, receives, &index) == 0 && index >= 0 && index < 100 && in[index] >= 0);
    CHECK(waitio_waitany(100, receives, &index) == 0 && index == -1);
    CHECK(waitio_testany(100, receives, &index, &done) == 0 && index == -1 && done == 1);
    for (turn = 100; turn < MANY; turn++) {
        for (done = 0; turn < 200 && !done;)
            CHECK(waitio_test(&receives[turn], &done) == 0);
        CHECK(waitio_wait(&receives[turn]) == 0);
    }
    for (turn = 0; turn < MANY; turn++)
        CHECK(in[turn] == (me + size - 1) % size * MANY + turn);
    CHECK(waitio_waitall(MANY, sends) == 0);
}

/* Behaviour 8: what nobody has asked for yet, and more of it than an eager buffer holds, stands in nobody's way. */
static void backwards(void)
{
    enum { SENT = 600, BYTES = 20000 };
    waitio_group_t all = everybody(1);
    static waitio_req_t sends[SENT], receive;
    static char in[BYTES];
    char *out = (char *)malloc((size_t)SENT * BYTES);
    int me, size, turn, peer;
    CHECK(out != NULL && waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    if (me != 0) {
        for (turn = 0; turn < SENT; turn++) {
            memset(out + turn * BYTES, turn + me, BYTES);
            CHECK(waitio_isend(all, 0, out + turn * BYTES, BYTES, (unsigned long)turn, &sends[turn]) == 0);
        }
    }
    /* The first collective, too, comes behind all that. */
    CHECK(waitio_mpi_barrier(all) == 0);
    for (turn = SENT - 1; me == 0 && turn >= 0; turn--)
        for (peer = size - 1; peer > 0; peer--) {
            CHECK(waitio_irecv(all, peer, in, BYTES, (unsigned long)turn, &receive) == 0);
            CHECK(waitio_wait(&receive) == 0 && in[0] == (char)(turn + peer) && in[BYTES - 1] == in[0]);
        }
    if (me != 0)
        CHECK(waitio_waitall(SENT, sends) == 0);
    free(out);
}

/* Beyond: looking at messages, giving receives up. */
static void beyond(void)
{
    waitio_group_t all = everybody(1);
    waitio_req_t send, receive, never;
    char out[100], in[100];
    int me, size, found, done, index;
    size_t bytes = 0;
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    memset(out, me, sizeof out);
    CHECK(waitio_iprobe(all, (me + size - 1) % size, 77, &found, &bytes) == 0 && !found);
    CHECK(waitio_isend(all, (me + 1) % size, out, 60, 1, &send) == 0);
    CHECK(waitio_probe(all, (me + size - 1) % size, 1, &bytes) == 0 && bytes == 60);
    CHECK(waitio_iprobe(all, (me + size - 1) % size, 1, &found, &bytes) == 0 && found && bytes == 60);
    CHECK(waitio_irecv(all, (me + size - 1) % size, in, sizeof in, 2, &never) == 0);
    CHECK(waitio_test(&never, &done) == 0 && !done);
    CHECK(waitio_testany(1, &never, &index, &done) == 0 && !done && index == -1);
    CHECK(waitio_cancel(&never) == 0 && waitio_wait(&never) == 0);
    CHECK(waitio_irecv(all, (me + size - 1) % size, in, sizeof in, 1, &receive) == 0);
    CHECK(waitio_wait(&receive) == 0 && in[0] == (me + size - 1) % size && in[59] == in[0]);
    CHECK(waitio_wait(&send) == 0 && waitio_cancel(&send) == 0);
    /* Too long a message is an error, and nothing behind the memory is touched. */
    in[10] = 55;
    CHECK(waitio_isend(all, (me + 1) % size, out, 60, 3, &send) == 0);
    CHECK(waitio_irecv(all, (me + size - 1) % size, in, 10, 3, &receive) == 0);
    CHECK(waitio_wait(&receive) != 0 && in[10] == 55);
    CHECK(waitio_wait(&send) == 0);
    /* Whoever has left is gone: for a receive that nobody will answer, too. */
    CHECK(waitio_mpi_barrier(all) == 0);
}

/* Everything that is wrong is an error with a message, and nothing else. */
static void misuse(void)
{
    waitio_group_t all, stale, none = NULL;
    waitio_req_t request;
    int size, me, word = 0, wrong[] = {0, 0, -1}, beyond_it[] = {99, -1}, *lists[64], order[64] = {0};
    char *nowhere = NULL;
    CHECK(waitio_init(0) == 0 && waitio_init(5) == 0);
    all = everybody(1);
    CHECK(waitio_group_size(all, &size) == 0 && waitio_group_rank(all, &me) == 0);
    memset(&request, 0x5a, sizeof request);
    CHECK(waitio_wait(&request) != 0 && strstr(waitio_error(), "never started") != NULL);
    CHECK(waitio_wait(NULL) != 0 && waitio_waitall(1, NULL) != 0 && waitio_waitall(-1, &request) != 0);
    CHECK(waitio_isend(all, size, (char *)&word, 4, 1, &request) != 0 && strstr(waitio_error(), "no member") != NULL);
    CHECK(waitio_wait(&request) != 0);
    CHECK(waitio_isend(all, -1, (char *)&word, 4, 1, &request) != 0);
    CHECK(waitio_isend(all, 0, nowhere, 4, 1, &request) != 0 && waitio_isend(all, 0, (char *)&word, 4, 1, NULL) != 0);
    CHECK(waitio_irecv(all, 0, nowhere, 4, 1, &request) != 0 && waitio_irecv(none, 0, (char *)&word, 4, 1, &request) != 0);
    CHECK(waitio_group_rank(none, &word) != 0 && word == -1 && waitio_group_size(all, NULL) != 0);
    CHECK(waitio_group_rank((waitio_group_t)12345678, &word) != 0);
    CHECK(waitio_pb_size(NULL) != 0 && waitio_pb_rank(NULL) != 0 && waitio_get_nprocs(NULL) <= 0);
    CHECK(waitio_create_group(1, NULL, order) == NULL && waitio_create_group_wranks(1, NULL, order) == NULL);
    memset(lists, 0, sizeof lists);
    lists[0] = wrong;
    CHECK(waitio_create_group_wranks(1, lists, order) == NULL);
    lists[0] = beyond_it;
    CHECK(waitio_create_group_wranks(1, lists, order) == NULL);
    CHECK(waitio_create_pbgroup(&stale, 99) != 0 && stale == NULL && waitio_create_universe(NULL) != 0);
    CHECK(waitio_mpi_send(&word, 1, 1, 0, 0, all) != 0 && strstr(waitio_error(), "type") != NULL);
    CHECK(waitio_mpi_isend(&word, -1, WAITIO_MPI_INT, 0, 0, all, &request) != 0 && waitio_wait(&request) != 0);
    CHECK(waitio_mpi_allreduce(&word, &word, 1, WAITIO_MPI_FLOAT, WAITIO_MPI_BAND, all) != 0);
    CHECK(waitio_mpi_bcast(&word, 1, WAITIO_MPI_INT, size, all) != 0 && waitio_mpi_type_size(7, &word) != 0);
    stale = everybody(9);
    none = stale;
    CHECK(waitio_free_group(&stale) == 0 && waitio_group_rank(none, &word) != 0 && waitio_free_group(&none) != 0);
    /* Whoever is no member can do nothing in a group. */
    lists[0] = NULL;
    lists[1] = beyond_it;
    beyond_it[0] = 0;
    stale = waitio_create_group_wranks(10, lists, order);
    CHECK(stale != NULL && waitio_group_rank(stale, &word) == 0);
    if (word == -1)
        CHECK(waitio_isend(stale, 0, (char *)&word, 4, 1, &request) != 0 && waitio_mpi_barrier(stale) != 0);
    CHECK(waitio_mpi_barrier(all) == 0);
    CHECK(waitio_finalize() == 0 && waitio_finalize() == 0);
    CHECK(waitio_pb_size(&size) != 0 && waitio_create_universe(&all) != 0 && waitio_init(1) != 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "failed_init") == 0) {
        failed_init();
        printf("ok\n");
        return 0;
    }
    if (waitio_init(30) != 0)
        return 4;
    if (strcmp(what, "numbering") == 0)
        numbering();
    else if (strcmp(what, "order") == 0)
        order();
    else if (strcmp(what, "progress") == 0)
        progress();
    else if (strcmp(what, "survival") == 0)
        survival();
    else if (strcmp(what, "kill") == 0 || strcmp(what, "exit") == 0)
        loss(what);
    else if (strcmp(what, "many") == 0)
        many();
    else if (strcmp(what, "backwards") == 0)
        backwards();
    else if (strcmp(what, "beyond") == 0)
        beyond();
    else if (strcmp(what, "misuse") == 0)
        misuse();
    else
        return 5;
    printf("ok\n");
    return 0;
}
