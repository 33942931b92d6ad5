/* Channels: every pair of ranks, messages of all lengths, requests waited for in any order, ends made and freed in any order. */
#include "check.h"
#include <unistd.h>

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
    acp_ch_t left = acp_create_ch(last, me);
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
    {
        acp_request_t sending = acp_nbsend_ch(right, out, 3000), receiving;
        memset(in, 255, 200);
        receiving = acp_nbrecv_ch(left, in, 100);
        CHECK(acp_wait_ch(receiving) == 100 && acp_wait_ch(sending) == 0);
        expect(in, 100, last + (int)i - 1);
        CHECK(in[100] == 255);
    }
    CHECK(acp_free_ch(left) == 0);
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

/* Begins to send a number by a channel, or to receive one. */
static void send_number(acp_ch_t channel, int number)
{
    CHECK(acp_send_ch(channel, &number, sizeof number) == 0);
}

static void receive_number(acp_ch_t channel, int number)
{
    int came = -1;
    CHECK(acp_recv_ch(channel, &came, sizeof came) == sizeof came && came == number);
}

/* Channels of a process with itself that are used for both: each has its own messages. */
static void both_ways(int receives_first, unsigned char *out, unsigned char *in)
{
    int me = acp_rank(), i;
    acp_ch_t channels[3];
    acp_request_t receives[3], sending;
    for (i = 0; i < 3; i++) {
        channels[i] = acp_create_ch(me, me);
        CHECK(channels[i] != NULL);
    }
    for (i = 0; i < 3 && !receives_first; i++)
        send_number(channels[i], i);
    for (i = 2; i >= 0 && !receives_first; i--)
        receive_number(channels[i], i);
    for (i = 0; i < 3; i++)
        CHECK((receives[i] = acp_nbrecv_ch(channels[i], in, LARGEST)) != NULL);
    for (i = 2; i >= 0; i--) {
        fill(out, LARGEST, i);
        sending = acp_nbsend_ch(channels[i], out, (size_t)(i == 1 ? LARGEST : 10));
        CHECK(acp_wait_ch(receives[i]) == (size_t)(i == 1 ? LARGEST : 10));
        expect(in, (size_t)(i == 1 ? LARGEST : 10), i);
        CHECK(acp_wait_ch(sending) == 0);
    }
    CHECK(acp_free_ch(channels[1]) == 0 && acp_free_ch(channels[0]) == 0 && acp_free_ch(channels[2]) == 0);
}

/* Two channels of a process with itself, one to send and one to receive, beside one that is used for both. */
static void with_itself(int order, unsigned char *out, unsigned char *in)
{
    int me = acp_rank(), i;
    acp_ch_t own = acp_create_ch(me, me), to, from;
    acp_request_t sending, receiving;
    send_number(own, 7);
    to = order & 1 ? acp_create_ch(me, me) : NULL;
    from = acp_create_ch(me, me);
    to = to == NULL ? acp_create_ch(me, me) : to;
    receive_number(own, 7);
    for (i = 0; i < 40; i++) {
        size_t size = (size_t)(i % 4 == 3 ? LARGEST : i * 100);
        fill(out, size, i);
        receiving = order & 2 ? acp_nbrecv_ch(from, in, LARGEST) : NULL;
        sending = acp_nbsend_ch(to, out, size);
        receiving = receiving == NULL ? acp_nbrecv_ch(from, in, LARGEST) : receiving;
        CHECK(sending != NULL && receiving != NULL);
        CHECK(acp_wait_ch(receiving) == size && acp_wait_ch(sending) == 0);
        expect(in, size, i);
    }
    /* The other way round, too. */
    send_number(from, 8);
    receive_number(to, 8);
    send_number(own, 9);
    receive_number(own, 9);
    CHECK(acp_free_ch(order & 4 ? to : from) == 0);
    CHECK(acp_free_ch(own) == 0);
    CHECK(acp_free_ch(order & 4 ? from : to) == 0);
}

/* Both neighbours of a ring of one are this process: those that are made first meet. What was sent on a channel that has been freed may
   still be received. */
static void neighbours(void)
{
    int me = acp_rank(), i;
    acp_ch_t to[2], from[2];
    for (i = 0; i < 2; i++) {
        to[i] = acp_create_ch(me, me);
        from[i] = acp_create_ch(me, me);
    }
    for (i = 0; i < 2; i++)
        send_number(to[i], i);
    for (i = 0; i < 2; i++)
        receive_number(from[i], i);
    for (i = 0; i < 2; i++)
        CHECK(acp_free_ch(to[i]) == 0 && acp_free_ch(from[i]) == 0);
    for (i = 0; i < 3; i++) {
        to[0] = acp_create_ch(me, me);
        from[0] = acp_create_ch(me, me);
        send_number(to[0], 1);
        send_number(to[0], 2);
        CHECK(acp_free_ch(to[0]) == 0);
        if (i < 2)
            receive_number(from[0], 1);
        if (i < 1)
            receive_number(from[0], 2);
        CHECK(acp_free_ch(from[0]) == 0);
    }
    /* One that is used by nobody, and one that is only sent on. */
    from[0] = acp_create_ch(me, me);
    CHECK(acp_free_ch(from[0]) == 0);
    to[0] = acp_create_ch(me, me);
    send_number(to[0], 1);
    CHECK(acp_free_ch(to[0]) == 0);
}

/* What was begun goes on while the program asks for something else. */
static void asking(unsigned char *out, unsigned char *in)
{
    int me = acp_rank(), procs = acp_procs(), round;
    volatile uint64_t *told = my_word(70);
    acp_ch_t channel;
    acp_request_t request;
    if (procs < 2 || me > 1)
        return;
    for (round = 1; round <= 4; round++) {
        size_t size = (size_t)(round % 2 == 0 ? LARGEST : 100);
        if (me == 1)
            usleep(20000);
        channel = acp_create_ch(0, 1);
        if (me == 1) {
            CHECK(acp_recv_ch(channel, in, LARGEST) == (int)size);
            *my_word(71) = (uint64_t)round;
            copy_now(word_ga(0, 70), word_ga(1, 71), 8);
        } else {
            request = acp_nbsend_ch(channel, out, size);
            while (*told != (uint64_t)round)
                if (round < 3)
                    copy_now(word_ga(0, 72), word_ga(1, 72), 8);
                else
                    acp_inquire(1);
            CHECK(acp_wait_ch(request) == 0);
        }
        CHECK(acp_free_ch(channel) == 0);
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
    int order;
    CHECK(acp_init(&argc, &argv) == 0);
    ring(out, in);
    eight(out, in);
    several();
    ring(out, in);
    both_ways(0, out, in);
    both_ways(1, out, in);
    for (order = 0; order < 8; order++)
        with_itself(order, out, in);
    neighbours();
    asking(out, in);
    unfinished(out, in);
    CHECK(acp_finalize() == 0);
    free(out);
    free(in);
    return 0;
}
