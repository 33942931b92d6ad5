/* Channels: every pair of ranks, messages of all lengths, requests waited for in any order, ends made and freed in any order. */
#include "check.h"

enum { LARGEST = 200000 };

static void fill(unsigned char *buffer, size_t size, int seed)
{
    size_t i;
    for (i = 0; i < size; i++)
        buffer[i] = (unsigned char)(seed * 31 + (int)(i * 7 + i / 251));
}

static void expect(const unsigned char *buffer, size_t size, int seed)
{
    size_t i;
    for (i = 0; i < size; i++)
        CHECK(buffer[i] == (unsigned char)(seed * 31 + (int)(i * 7 + i / 251)));
}

/* Each rank sends to the next one. */
static void ring(unsigned char *out, unsigned char *in)
{
    static const size_t sizes[] = {0, 1, 8, 1023, 1024, 1025, 16384, 20000, 32767, 32768, 100000, LARGEST};
    int me = acp_rank(), procs = acp_procs(), next = (me + 1) % procs, last = (me + procs - 1) % procs;
    acp_ch_t right = acp_create_ch(me, next);
    acp_ch_t left = next == me ? right : acp_create_ch(last, me);
    size_t i;
    CHECK(right != NULL && left != NULL);
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        acp_request_t sending, receiving;
        fill(out, sizes[i], me + (int)i);
        memset(in, 0, sizes[i]);
        sending = acp_nbsend_ch(right, out, sizes[i]);
        receiving = acp_nbrecv_ch(left, in, LARGEST);
        CHECK(sending != NULL && receiving != NULL);
        CHECK(acp_wait_ch(receiving) == sizes[i]);
        CHECK(acp_wait_ch(sending) == 0);
        expect(in, sizes[i], last + (int)i);
    }
    /* A message that is longer than the buffer: what fits is there. */
    if (procs > 1) {
        acp_request_t sending = acp_nbsend_ch(right, out, 3000), receiving;
        memset(in, 255, 200);
        receiving = acp_nbrecv_ch(left, in, 100);
        CHECK(acp_wait_ch(receiving) == 100 && acp_wait_ch(sending) == 0);
        expect(in, 100, last + (int)i - 1);
        CHECK(in[100] == 255);
    }
    CHECK(acp_free_ch(left) == 0);
    if (right != left)
        CHECK(acp_free_ch(right) == 0);
}

/* Eight requests may be open; they are waited for in any order, and all at once. */
static void eight(unsigned char *out, unsigned char *in)
{
    int me = acp_rank(), procs = acp_procs(), peer = me ^ 1, i;
    acp_request_t sends[8], receives[8];
    size_t sizes[8];
    acp_ch_t to, from;
    if (peer >= procs || procs < 2)
        return;
    if (me < peer) {
        to = acp_create_ch(me, peer);
        from = acp_create_ch(peer, me);
    } else {
        from = acp_create_ch(peer, me);
        to = acp_create_ch(me, peer);
    }
    for (i = 0; i < 8; i++) {
        fill(out + 3000 * i, 3000, 10 * me + i);
        sends[i] = acp_nbsend_ch(to, out + 3000 * i, (size_t)(i == 3 ? 0 : 3000 - i));
        CHECK(sends[i] != NULL);
    }
    CHECK(acp_nbsend_ch(to, out, 1) == NULL);
    for (i = 0; i < 8; i++) {
        receives[i] = acp_nbrecv_ch(from, in + 3000 * i, 3000);
        CHECK(receives[i] != NULL);
    }
    CHECK(acp_nbrecv_ch(from, in, 1) == NULL);
    CHECK(acp_wait_ch(receives[7]) == 2993);
    CHECK(acp_wait_ch(receives[3]) == 0);
    receives[7] = receives[3] = NULL;
    CHECK(acp_waitall_ch(receives, 8, sizes) == 0);
    for (i = 0; i < 8; i++) {
        CHECK(sizes[i] == (size_t)(i == 3 || i == 7 ? 0 : 3000 - i));
        if (i != 3)
            expect(in + 3000 * i, (size_t)(3000 - i), 10 * peer + i);
    }
    CHECK(acp_waitall_ch(sends, 8, NULL) == 0);
    /* The blocking forms. */
    if (me < peer) {
        CHECK(acp_send_ch(to, out, 77) == 0);
        CHECK(acp_recv_ch(from, in, 100) == 78);
    } else {
        CHECK(acp_recv_ch(from, in, 100) == 77);
        CHECK(acp_send_ch(to, out, 78) == 0);
    }
    /* Both free what they receive by first. */
    CHECK(acp_wait_ch(acp_nbfree_ch(from)) == 0);
    CHECK(acp_wait_ch(acp_nbfree_ch(to)) == 0);
}

/* Several channels between one pair meet in the order in which they were made; one has been made long before its other end. */
static void several(void)
{
    int me = acp_rank(), procs = acp_procs(), i, number;
    acp_ch_t channels[5];
    if (procs < 2)
        return;
    if (me == 0) {
        acp_request_t requests[5];
        static int numbers[5];
        for (i = 0; i < 5; i++) {
            channels[i] = acp_create_ch(0, procs - 1);
            numbers[i] = i;
            requests[i] = acp_nbsend_ch(channels[i], &numbers[i], sizeof numbers[i]);
            CHECK(requests[i] != NULL);
        }
        /* The other end is not there yet: what is sent goes on its way in the barrier, too. */
        acp_sync();
        CHECK(acp_waitall_ch(requests, 5, NULL) == 0);
        for (i = 0; i < 5; i++)
            CHECK(acp_free_ch(channels[i]) == 0);
    } else if (me == procs - 1) {
        for (i = 0; i < 5; i++)
            channels[i] = acp_create_ch(0, me);
        for (i = 4; i >= 0; i--) {
            CHECK(acp_wait_ch(acp_nbrecv_ch(channels[i], &number, sizeof number)) == sizeof number);
            CHECK(number == i);
        }
        acp_sync();
        for (i = 0; i < 5; i++)
            CHECK(acp_free_ch(channels[i]) == 0);
    } else {
        acp_sync();
    }
}

/* What is not waited for is sent before the end. */
static void unfinished(unsigned char *out, unsigned char *in)
{
    int me = acp_rank(), procs = acp_procs(), i;
    acp_ch_t channel;
    if (procs < 2 || me > 1)
        return;
    channel = acp_create_ch(0, 1);
    for (i = 0; i < 6; i++) {
        if (me == 0)
            CHECK(acp_nbsend_ch(channel, out, 30000) != NULL);
        else if (i < 4)
            CHECK(acp_recv_ch(channel, in, LARGEST) == 30000);
    }
}

int main(int argc, char **argv)
{
    unsigned char *out = (unsigned char *)malloc(LARGEST), *in = (unsigned char *)malloc(LARGEST);
    CHECK(acp_init(&argc, &argv) == 0);
    ring(out, in);
    eight(out, in);
    several();
    ring(out, in);
    unfinished(out, in);
    CHECK(acp_finalize() == 0);
    free(out);
    free(in);
    return 0;
}
