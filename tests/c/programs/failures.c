/* What goes wrong, by the name in the first argument; the driver looks at the exit code and at what was said. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Holds a stream for ever. */
static void *hold(void *stream)
{
    flockfile((FILE *)stream);
    *my_word(0) = 1;
    for (;;)
        pause();
    return NULL;
}

/* Ends the job while the first thread is in acp_finalize, where it waits for a rank that does not come. */
static void *give_up(void *nothing)
{
    usleep(300000);
    acp_abort("it takes too long");
    return nothing;
}

/* Copies from memory of the last rank that is registered and not there; prints its address. */
static void check_unmapped(void)
{
    uint64_t all[64];
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    acp_ga_t own = acp_query_ga(acp_register_memory(page, 4096, 0), page);
    CHECK(own != ACP_GA_NULL && munmap(page, 4096) == 0);
    exchange(own, all);
    if (acp_rank() == 0) {
        acp_ga_t there = all[acp_procs() - 1] + 512;
        printf("unmapped at %#llx\n", (unsigned long long)there);
        acp_complete(acp_copy(word_ga(0, 0), there, 8, (acp_handle_t)ACP_HANDLE_NULL));
    }
    acp_sync();
}

/* Misuse of channels and segment buffers from rank 0 to rank 1. */
static void check_channels(void)
{
    int me = acp_rank(), other = 1 - me, i;
    static char memory[64], bytes[16];
    acp_ch_t ch = acp_create_ch(0, 1);
    acp_segbuf_t segbuf = me == 0 ? acp_create_src_segbuf(1, memory, 16, 4) : NULL;
    acp_request_t requests[8];
    CHECK(me == 1 || acp_isready_segbuf(segbuf) == -1);
    acp_sync();
    if (me == 1)
        segbuf = acp_create_dst_segbuf(0, memory, 16, 4);
    CHECK(ch != NULL && segbuf != NULL);
    CHECK(acp_connect_segbuf(segbuf) == 0);
    if (me == 0) {
        CHECK(acp_isacked_segbuf(segbuf) == -1 && acp_nbrecv_ch(ch, bytes, 4) == NULL);
        CHECK(acp_nbsend_ch(ch, NULL, 4) == NULL);
        CHECK(acp_wait_ch(acp_nbsend_ch(ch, bytes, 16)) == 0);
    } else {
        CHECK(acp_ack_segbuf(segbuf) == -1 && acp_nbsend_ch(ch, bytes, 4) == NULL);
        CHECK(acp_wait_ch(acp_nbrecv_ch(ch, bytes, 4)) == 4);
        CHECK(acp_create_src_segbuf(other, memory, 0, 4) == NULL);
        CHECK(acp_create_src_segbuf(2, memory, 16, 4) == NULL && acp_create_dst_segbuf(-1, memory, 16, 4) == NULL);
        CHECK(acp_create_ch(1, 2) == NULL);
        for (i = 0; i < 8; i++)
            CHECK((requests[i] = acp_nbrecv_ch(ch, bytes, 1)) != NULL);
        CHECK(acp_recv_ch(ch, bytes, 1) == -1);
    }
    if (me == 0)
        for (i = 0; i < 8; i++)
            CHECK(acp_wait_ch(acp_nbsend_ch(ch, bytes, 1)) == 0);
    else
        for (i = 0; i < 8; i++)
            CHECK(acp_wait_ch(requests[i]) == 1);
    CHECK(acp_disconnect_segbuf(segbuf) == 0 && acp_free_segbuf(segbuf) == 0 && acp_free_ch(ch) == 0);
    CHECK(acp_free_segbuf(segbuf) == -1 && acp_free_ch(ch) == -1);
}

int main(int argc, char **argv)
{
    const char *what;
    CHECK(acp_init(&argc, &argv) == 0);
    what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "abort") == 0 && acp_rank() == acp_procs() - 1) {
        printf("printed before the end");
        acp_abort("the sky is falling");
    }
    if (strcmp(what, "held") == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, hold, tmpfile()) == 0);
        while (*my_word(0) == 0)
            usleep(1000);
        acp_abort("a stream is held");
    }
    if (strcmp(what, "finalizing") == 0) {
        pthread_t thread;
        if (acp_rank() == 0)
            CHECK(pthread_create(&thread, NULL, give_up, NULL) == 0);
        else
            sleep(100);
    }
    if (strcmp(what, "reset") == 0) {
        if (acp_rank() == 0)
            CHECK(acp_reset(acp_procs()) == -1 && acp_reset(-1) == -1 && acp_rank() == 0);
        CHECK(acp_sync() == 0);
    }
    if (strcmp(what, "reset_same") == 0) {
        /* All are refused alike, are in no world then, and may begin again. */
        int me = acp_rank(), all = acp_procs();
        CHECK(acp_create_ch(0, 1 % all) != NULL || me > 1 % all);
        CHECK(acp_reset(0) == -1);
        CHECK(acp_rank() == -1 && acp_procs() == -1 && acp_sync() == -1 && acp_finalize() == -1);
        CHECK(acp_init(&argc, &argv) == 0 && acp_rank() == me && acp_procs() == all && acp_sync() == 0);
        CHECK(acp_reset((me + 1) % all) == 0 && acp_rank() == (me + 1) % all && acp_sync() == 0);
    }
    if (strcmp(what, "channels") == 0)
        check_channels();
    if (strcmp(what, "loop") == 0) {
        acp_ga_t far = word_ga(0, 0) + 1000000000;
        int i;
        for (i = 0; i < 12345; i++)
            CHECK(acp_copy(word_ga(0, 0), far + 8 * (acp_ga_t)i, 8, 0) == 0);
        acp_copy(ACP_GA_NULL, word_ga(0, 0), 8, 0);
    }
    if (strcmp(what, "unmapped") == 0)
        check_unmapped();
    if (strcmp(what, "misaligned") == 0) {
        acp_ga_t block = acp_malloc(64, acp_rank());
        acp_free(block + 4);
        acp_free(block);
    }
    if (strcmp(what, "exit") == 0 && acp_rank() == acp_procs() - 1)
        exit(42);
    if (strcmp(what, "signal") == 0 && acp_rank() == 0)
        raise(SIGSEGV);
    if (strcmp(what, "bounds") == 0) {
        CHECK(acp_copy(word_ga(0, 0), word_ga(0, 0) + 1000000000, 8, 0) == 0 || acp_procs() > 1);
        acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    }
    if (strcmp(what, "starter") == 0) {
        /* The bytes of starter memory, by trying. */
        size_t bytes = (size_t)atoi(argv[2]);
        CHECK(acp_copy(word_ga(acp_rank(), 0), word_ga(acp_rank(), 0) + bytes - 1, 1, 0) > 0);
        CHECK(acp_copy(word_ga(acp_rank(), 0), word_ga(acp_rank(), 0) + bytes, 1, 0) == 0);
    }
    if (strcmp(what, "procs") == 0)
        CHECK(acp_procs() == atoi(argv[2]));
    if (strcmp(what, "heap") == 0)
        CHECK(acp_malloc((size_t)atoi(argv[2]), acp_rank()) != ACP_GA_NULL);
    if (strcmp(what, "fill") == 0) {
        /* All that the heap has, and a little of it again. */
        acp_ga_t block, last = ACP_GA_NULL;
        int blocks = 0;
        while ((block = acp_malloc(1 << 20, acp_rank())) != ACP_GA_NULL) {
            last = block;
            blocks++;
        }
        CHECK(blocks > 50 && acp_create_vector(1 << 20, acp_rank()).ga == ACP_GA_NULL);
        acp_free(last);
        CHECK(acp_malloc(1000, acp_rank()) != ACP_GA_NULL);
    }
    CHECK(strcmp(what, "twice") != 0 || acp_init(&argc, &argv) == -1);
    CHECK(acp_finalize() == 0);
    CHECK(acp_finalize() == -1 && acp_rank() == -1 && acp_sync() == -1);
    return 0;
}
