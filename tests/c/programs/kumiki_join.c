/* Programs that join by kumiki.h: two blocks that exchange messages in several sizes, have collectives, and are told who is gone. */
#include "kumiki_check.h"
#include <signal.h>
#include <unistd.h>

enum { LONG = 300000, GROUP = 7 };

static kumiki_world *world = NULL;
static uint32_t me, ranks, block, own_rank;

/* Who is who, in every way in which it can be asked. */
static void places(void)
{
    uint32_t rank, at_block, at_rank, known = 0, b;
    CHECK(kumiki_join_blocks(world) == 2);
    block = (uint32_t)kumiki_join_block(world);
    own_rank = (uint32_t)kumiki_join_rank(world);
    me = (uint32_t)kumiki_rank(world);
    ranks = (uint32_t)kumiki_ranks(world);
    CHECK(kumiki_join_world_rank(world, block, own_rank) == (int64_t)me);
    for (b = 0; b < 2; b++)
        known += (uint32_t)kumiki_join_ranks(world, b);
    CHECK(known == ranks);
    for (rank = 0; rank < ranks; rank++) {
        OK(kumiki_join_place_of(world, rank, &at_block, &at_rank));
        CHECK(kumiki_join_world_rank(world, at_block, at_rank) == (int64_t)rank);
    }
    MISUSE(kumiki_join_place_of(world, ranks, &at_block, &at_rank), "ranks");
    CHECK(kumiki_join_ranks(world, 2) == -1 && strstr(kumiki_last_error(), "block") != NULL);
    CHECK(kumiki_join_world_rank(world, 0, 1000) == -1);
}

/* Everybody sends to the next, short and long at once, and takes them as they come. */
static void messages(void)
{
    static unsigned char out[LONG], in[LONG];
    uint32_t next = (me + 1) % ranks, last = (me + ranks - 1) % ranks;
    const uint64_t tag = (uint64_t)1 << 40;
    kumiki_request *requests[3] = {NULL, NULL, NULL};
    kumiki_message_info info;
    int done = 0, i;
    uint32_t word = me;
    memset(out, (int)me + 1, LONG);
    OK(kumiki_message_start_receive(world, GROUP, last, tag, in, LONG, &requests[0]));
    OK(kumiki_message_start_send(world, GROUP, next, tag, out, LONG, &requests[1]));
    OK(kumiki_message_start_send(world, GROUP, next, tag + 1, &word, sizeof word, &requests[2]));
    word = ranks;
    OK(kumiki_message_receive(world, GROUP, last, tag + 1, &word, sizeof word, &info));
    CHECK(word == last && info.from == last && info.tag == tag + 1 && info.bytes == sizeof word);
    while (!done)
        OK(kumiki_request_test(&requests[0], &done, &info));
    CHECK(info.bytes == LONG && requests[0] == NULL);
    for (i = 0; i < LONG; i++)
        CHECK(in[i] == last + 1);
    OK(kumiki_request_wait_all(requests, 3, NULL));
}

/* All of them, and the first of each block; in the other order. */
static void collectives(void)
{
    uint32_t everybody[64], heads[2], i;
    kumiki_group *all = NULL, *first = NULL;
    kumiki_request *request = NULL;
    double sum = me, word;
    int64_t largest = own_rank;
    for (i = 0; i < ranks; i++)
        everybody[i] = ranks - 1 - i;
    OK(kumiki_join_group(world, 1, everybody, ranks, &all));
    CHECK(kumiki_group_ranks(all) == (int64_t)ranks && kumiki_group_rank(all) == (int64_t)(ranks - 1 - me));
    CHECK(kumiki_group_world_rank(all, 0) == (int64_t)(ranks - 1));
    OK(kumiki_group_allreduce(all, &sum, 1, KUMIKI_F64, KUMIKI_ADD));
    CHECK(sum == ranks * (ranks - 1) / 2.0);
    word = me == 0 ? 42 : 0;
    OK(kumiki_group_broadcast(all, ranks - 1, &word, sizeof word));
    CHECK(word == 42);
    OK(kumiki_group_start_allreduce(all, &largest, 1, KUMIKI_I64, KUMIKI_MAX, &request));
    OK(kumiki_request_wait(&request, NULL));
    CHECK(largest + 1 == kumiki_join_ranks(world, 0) || largest + 1 == kumiki_join_ranks(world, 1));
    heads[0] = (uint32_t)kumiki_join_world_rank(world, 1, 0);
    heads[1] = 0;
    OK(kumiki_join_group(world, 2, heads, 2, &first));
    CHECK((first != NULL) == (own_rank == 0));
    if (first != NULL) {
        OK(kumiki_group_barrier(first));
        OK(kumiki_group_free(first));
    }
    OK(kumiki_group_barrier(all));
    OK(kumiki_group_free(all));
    MISUSE(kumiki_group_barrier(all), "group");
    heads[1] = heads[0];
    MISUSE(kumiki_join_group(world, 3, heads, 2, &first), "");
    MISUSE(kumiki_join_group(world, INT32_MIN, everybody, ranks, &first), "id");
}

/* Whoever has left has its memory for itself: others who go on to write there are told, and nothing comes any more. */
static void leaves_early(void)
{
    static unsigned char memory[LONG];
    static unsigned char zeroes[LONG];
    kumiki_address there;
    int status = KUMIKI_SUCCESS, i;
    if (block == 1) {
        OK(kumiki_register(world, memory, sizeof memory, &there));
        for (i = 0; i < (int)ranks - 1; i++)
            OK(kumiki_message_send(world, 0, (uint32_t)i, 1, &there, sizeof there));
        while (*(volatile unsigned char *)memory == 0)
            usleep(100);
        OK(kumiki_join_leave(world));
        memset(memory, 0, sizeof memory);
        for (i = 0; i < 200; i++) {
            usleep(1000);
            CHECK(memcmp(memory, zeroes, sizeof memory) == 0);
        }
        return;
    }
    memset(memory, 7, sizeof memory);
    OK(kumiki_message_receive(world, 0, ranks - 1, 1, &there, sizeof there, NULL));
    while (status == KUMIKI_SUCCESS)
        status = kumiki_put(world, there, memory, sizeof memory);
    CHECK(status == KUMIKI_BOUNDS || status == KUMIKI_PEER_LOST);
    OK(kumiki_join_leave(world));
}

static void joins(void)
{
    kumiki_join_options options;
    OK(kumiki_join_default_options(&options));
    CHECK(options.block == -1 && options.rank == -1 && options.host == NULL && options.secret == NULL);
    options.block = 2;
    options.blocks = 2;
    MISUSE(kumiki_join_init(&options, &world), "block");
    MISUSE(kumiki_join_init(NULL, NULL), "NULL");
    OK(kumiki_join_default_options(&options));
    CHECK(options.port == 0 && options.relay == NULL);
    options.port = 7100;
    MISUSE(kumiki_join_init(&options, &world), "host");
    options.port = 0;
    options.host = "localhost";
    MISUSE(kumiki_join_init(&options, &world), "port");
    OK(kumiki_join_default_options(&options));
    options.milliseconds = 50000;
    OK(kumiki_join_init(&options, &world));
}

int main(int count, char **words)
{
    unsigned char byte = 0;
    joins();
    places();
    if (count > 1 && strcmp(words[1], "kill") == 0) {
        if (block == 1) {
            OK(kumiki_message_receive(world, 0, 0, 1, &byte, 1, NULL));
            raise(SIGKILL);
        }
        if (me == 0)
            OK(kumiki_message_send(world, 0, ranks - 1, 1, &byte, 1));
        CHECK(kumiki_message_receive(world, 0, ranks - 1, 2, &byte, 1, NULL) == KUMIKI_PEER_LOST);
        CHECK(strstr(kumiki_last_error(), "rank 0 of block 1") != NULL);
        OK(kumiki_join_leave(world));
        puts("ok");
        return 0;
    }
    if (count > 1 && strcmp(words[1], "memory") == 0) {
        leaves_early();
        puts("ok");
        return 0;
    }
    MISUSE(kumiki_finalize(world), "kumiki_join_leave");
    messages();
    collectives();
    messages();
    OK(kumiki_join_leave(world));
    world = NULL;
    /* Alone: whoever counted the processes of this block meant the other world. */
    unsetenv("KUMIKI_RANK");
    unsetenv("KUMIKI_RANKS");
    OK(kumiki_init(&world));
    CHECK(kumiki_join_blocks(world) == -1 && strstr(kumiki_last_error(), "kumiki_join_init") != NULL);
    MISUSE(kumiki_join_leave(world), "kumiki_finalize");
    OK(kumiki_finalize(world));
    puts("ok");
    return 0;
}
