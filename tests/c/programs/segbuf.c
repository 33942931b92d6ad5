/* Segment buffers: a stream of segments from each rank to the next one, read in place. */
#include "check.h"
#include <pthread.h>

static void stream(int segsize, int segnum, int count)
{
    int me = acp_rank(), procs = acp_procs(), next = (me + 1) % procs, last = (me + procs - 1) % procs;
    int sent = 0, taken = 0, i;
    size_t bytes = (size_t)segsize * (size_t)segnum;
    unsigned char *out = (unsigned char *)calloc(1, bytes), *in = (unsigned char *)calloc(1, bytes);
    acp_segbuf_t source = acp_create_src_segbuf(next, out, (size_t)segsize, (size_t)segnum);
    acp_segbuf_t destination = acp_create_dst_segbuf(last, in, (size_t)segsize, (size_t)segnum);
    CHECK(source != NULL && destination != NULL);
    CHECK(acp_connect_segbuf(source) == 0);
    while (acp_isconnected_segbuf(destination) == 1)
        ;
    CHECK(acp_isconnected_segbuf(source) == 0 && acp_isconnected_segbuf(destination) == 0);
    CHECK(acp_isready_segbuf(source) == 0);
    CHECK(acp_query_segbuf_tail(source) == 0 && acp_query_segbuf_head(destination) == 0);
    while (taken < count || sent < count) {
        if (sent < count && acp_isready_segbuf(source) == 0) {
            int64_t tail = acp_query_segbuf_tail(source);
            CHECK(tail == sent % segnum);
            memset(out + tail * segsize, sent % 251 + me, (size_t)segsize);
            CHECK(acp_ack_segbuf(source) == 0);
            sent++;
        }
        if (acp_isacked_segbuf(destination) == 0) {
            int64_t head = acp_query_segbuf_head(destination);
            CHECK(head == taken % segnum);
            for (i = 0; i < segsize; i++)
                CHECK(in[head * segsize + i] == (unsigned char)(taken % 251 + last));
            CHECK(acp_ready_segbuf(destination) == 0);
            taken++;
        }
    }
    CHECK(acp_isacked_segbuf(destination) == 1 && acp_ready_segbuf(destination) == 1);
    /* Full: as many as there are segments, and not one more. */
    acp_sync();
    for (i = 0; i < segnum; i++) {
        while (acp_isready_segbuf(source) == 1)
            ;
        CHECK(acp_ack_segbuf(source) == 0);
    }
    CHECK(acp_isready_segbuf(source) == 1 && acp_ack_segbuf(source) == 1);
    CHECK(acp_query_segbuf_sent(source) >= 0);
    CHECK(acp_disconnect_segbuf(source) == 0);
    acp_sync();
    CHECK(acp_isacked_segbuf(destination) == 0);
    CHECK(acp_query_segbuf_tail(destination) == (count + segnum) % segnum);
    CHECK(acp_disconnect_segbuf(destination) == 0);
    CHECK(acp_free_segbuf(source) == 0 && acp_free_segbuf(destination) == 0);
    acp_sync();
    free(out);
    free(in);
}

static acp_segbuf_t shared;

/* Asks for a segment buffer that another thread asks for, too. */
static void *ask(void *wrong)
{
    int i;
    for (i = 0; i < 2000; i++)
        if (acp_query_segbuf_head(shared) != 0 || acp_isconnected_segbuf(shared) != 0)
            ++*(int *)wrong;
    return NULL;
}

static void two_threads(void)
{
    static unsigned char out[64], in[64];
    int me = acp_rank(), procs = acp_procs(), there = 0, here = 0;
    acp_segbuf_t source = acp_create_src_segbuf((me + 1) % procs, out, 16, 4);
    pthread_t thread;
    shared = acp_create_dst_segbuf((me + procs - 1) % procs, in, 16, 4);
    CHECK(source != NULL && shared != NULL);
    CHECK(acp_connect_segbuf(source) == 0 && acp_connect_segbuf(shared) == 0);
    CHECK(pthread_create(&thread, NULL, ask, &there) == 0);
    ask(&here);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(there == 0 && here == 0);
    CHECK(acp_free_segbuf(source) == 0 && acp_free_segbuf(shared) == 0);
    CHECK(acp_free_segbuf(shared) == -1);
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    two_threads();
    stream(8, 4, 50);
    stream(1000, 3, 40);
    stream(70000, 2, 9);
    stream(64, 1, 10);
    CHECK(acp_finalize() == 0);
    return 0;
}
