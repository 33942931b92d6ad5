/* Messages by tag, requests of all kinds, channels. */
#include "kumiki_check.h"
#include <pthread.h>

enum { LONGEST = 300000 };

static kumiki_world *world;
static uint32_t me, ranks, next, last;

static void fill(unsigned char *buffer, size_t size, uint32_t seed)
{
    size_t i;
    for (i = 0; i < size; i++)
        buffer[i] = (unsigned char)(seed * 31 + i * 7 + i / 251);
}

static int is_filled(const unsigned char *buffer, size_t size, uint32_t seed)
{
    size_t i;
    for (i = 0; i < size; i++)
        if (buffer[i] != (unsigned char)(seed * 31 + i * 7 + i / 251))
            return 0;
    return 1;
}

/* Around the ring, of all lengths, by rank and tag and by any. */
static void ring(unsigned char *out, unsigned char *in)
{
    static const size_t sizes[] = {0, 1, 8, 1000, 1024, 1025, 5000, 100000, LONGEST};
    size_t i;
    for (i = 0; i < LENGTH(sizes); i++) {
        kumiki_request *sending = NULL, *receiving = NULL;
        kumiki_message_info info;
        int any = i % 2 == 0;
        fill(out, sizes[i], me + (uint32_t)i);
        OK(kumiki_message_start_receive(world, 0, any ? KUMIKI_ANY_RANK : last, any ? KUMIKI_ANY_TAG : i, in, LONGEST,
            &receiving));
        OK(kumiki_message_start_send(world, 0, next, i, out, sizes[i], &sending));
        CHECK(sending != NULL && receiving != NULL);
        OK(kumiki_request_wait(&receiving, &info));
        OK(kumiki_request_wait(&sending, NULL));
        CHECK(sending == NULL && receiving == NULL);
        CHECK(info.from == last && info.tag == i && info.bytes == sizes[i]);
        CHECK(is_filled(in, sizes[i], last + (uint32_t)i));
        /* The forms that wait: every second rank sends first, and whoever sends to itself starts. */
        if (ranks > 1 && ranks % 2 == 0 && me % 2 == 0)
            OK(kumiki_message_send(world, 0, next, 7, out, sizes[i]));
        else
            OK(kumiki_message_start_send(world, 0, next, 7, out, sizes[i], &sending));
        OK(kumiki_message_receive(world, 0, KUMIKI_ANY_RANK, 7, in, LONGEST, &info));
        CHECK(info.from == last && info.bytes == sizes[i] && is_filled(in, sizes[i], last + (uint32_t)i));
        OK(kumiki_request_wait(&sending, NULL));
    }
}

/* Everybody sends to everybody; whatever comes first is taken first. */
static void anybody(void)
{
    kumiki_request *requests[16];
    uint32_t numbers[8], mine = me, rank;
    size_t index, done;
    kumiki_message_info info;
    memset(requests, 0, sizeof requests);
    for (rank = 0; rank < ranks; rank++)
        OK(kumiki_message_start_receive(world, 3, rank, 1, &numbers[rank], 4, &requests[rank]));
    for (rank = 0; rank < ranks; rank++)
        OK(kumiki_message_start_send(world, 3, rank, 1, &mine, 4, &requests[8 + rank]));
    for (done = 0; done < 2 * ranks; done++) {
        OK(kumiki_request_wait_any(requests, 16, &index, &info));
        CHECK(index < 16 && requests[index] == NULL);
        CHECK(index >= 8 || (info.from == index && numbers[index] == index));
    }
    OK(kumiki_request_wait_any(requests, 16, &index, NULL));
    CHECK(index == 16);
    OK(kumiki_request_wait_all(requests, 16, NULL));
}

static void probes_and_contexts(void)
{
    kumiki_message_info info;
    kumiki_request *sending = NULL, *receiving = NULL, *second = NULL;
    uint64_t number = me, got = 0;
    int found = 1, done = 0, cancelled = 0;
    OK(kumiki_message_start_send(world, 5, next, 77, &number, 8, &sending));
    OK(kumiki_message_probe(world, 5, KUMIKI_ANY_RANK, KUMIKI_ANY_TAG, &info));
    CHECK(info.from == last && info.tag == 77 && info.bytes == 8);
    /* It is not seen in another context, and not lost. */
    OK(kumiki_message_try_probe(world, 6, KUMIKI_ANY_RANK, 77, &found, NULL));
    CHECK(found == 0);
    OK(kumiki_message_try_probe(world, 5, last, 77, &found, &info));
    CHECK(found == 1 && info.bytes == 8);
    OK(kumiki_message_start_receive(world, 5, last, 78, &got, 8, &receiving));
    OK(kumiki_request_test(&receiving, &done, NULL));
    CHECK(done == 0 && receiving != NULL);
    OK(kumiki_message_start_receive(world, 5, last, 77, &got, 8, &second));
    while (!done)
        OK(kumiki_request_test(&second, &done, &info));
    CHECK(second == NULL && got == last && info.tag == 77);
    OK(kumiki_request_cancel(&receiving, &cancelled, NULL));
    CHECK(cancelled == 1 && receiving == NULL);
    OK(kumiki_request_wait(&sending, NULL));
    /* One that is freed leaves a message that comes later to the next; one that has its message is received after all. */
    OK(kumiki_message_start_receive(world, 5, last, 79, &got, 8, &receiving));
    OK(kumiki_request_free(&receiving));
    OK(kumiki_sync(world));
    OK(kumiki_message_start_send(world, 5, next, 79, &number, 8, &sending));
    got = ~(uint64_t)0;
    OK(kumiki_message_start_receive(world, 5, last, 79, &got, 8, &receiving));
    OK(kumiki_sync(world));
    OK(kumiki_request_cancel(&receiving, &cancelled, &info));
    if (cancelled)
        OK(kumiki_message_receive(world, 5, last, 79, &got, 8, &info));
    CHECK(got == last && info.tag == 79);
    OK(kumiki_request_free(&sending));
}

static void options(void)
{
    kumiki_message_options wanted;
    uint64_t number = 1, got = 0;
    int i;
    kumiki_request *sending = NULL;
    OK(kumiki_message_default_options(&wanted));
    CHECK(wanted.way == KUMIKI_WAY_AUTOMATIC && wanted.fast_pairs == 64);
    for (i = KUMIKI_WAY_MAILBOX; i <= KUMIKI_WAY_LANE; i++) {
        int turn;
        wanted.way = i;
        wanted.fast_pairs = 2;
        OK(kumiki_message_set_options(world, &wanted));
        OK(kumiki_sync(world));
        for (turn = 0; turn < 50; turn++) {
            OK(kumiki_message_start_send(world, 0, next, 3, &number, 8, &sending));
            OK(kumiki_message_receive(world, 0, last, 3, &got, 8, NULL));
            OK(kumiki_request_wait(&sending, NULL));
        }
    }
    wanted.way = 9;
    MISUSE(kumiki_message_set_options(world, &wanted), "way");
    wanted.way = 0;
    wanted.lane_bytes = 1;
    MISUSE(kumiki_message_set_options(world, &wanted), "lanes of");
    MISUSE(kumiki_message_set_options(world, NULL), "options");
    MISUSE(kumiki_message_default_options(NULL), "options");
    OK(kumiki_message_default_options(&wanted));
    OK(kumiki_message_set_options(world, &wanted));
}

static void misuse(unsigned char *out)
{
    kumiki_request *request = NULL, *freed = NULL;
    uint64_t number = 5;
    int done = 0;
    size_t index = 0;
    MISUSE(kumiki_message_send(world, 0, ranks, 1, &number, 8), "rank");
    MISUSE(kumiki_message_send(world, 0, next, KUMIKI_ANY_TAG, &number, 8), "tag");
    MISUSE(kumiki_message_send(world, 0, next, 1, NULL, 8), "data");
    MISUSE(kumiki_message_send(world, 0, next, 1, &number, ~(size_t)0), "data");
    MISUSE(kumiki_message_receive(world, 0, ranks, 1, &number, 8, NULL), "rank");
    MISUSE(kumiki_message_receive(world, 0, last, 1, NULL, 8, NULL), "into");
    MISUSE(kumiki_message_start_send(world, 0, next, 1, &number, 8, NULL), "request");
    MISUSE(kumiki_message_start_send(world, 0, ranks, 1, &number, 8, &request), "rank");
    MISUSE(kumiki_message_start_send(world, 0, next, 1, NULL, 8, &request), "data");
    MISUSE(kumiki_message_start_receive(world, 0, last, 1, NULL, 8, &request), "into");
    MISUSE(kumiki_message_start_receive(world, 0, last, 1, &number, 8, NULL), "request");
    CHECK(request == NULL);
    MISUSE(kumiki_message_probe(world, 0, ranks, 1, NULL), "rank");
    MISUSE(kumiki_message_try_probe(world, 0, last, 1, NULL, NULL), "answer");
    MISUSE(kumiki_request_wait(NULL, NULL), "request");
    MISUSE(kumiki_request_test(&request, NULL, NULL), "answer");
    MISUSE(kumiki_request_wait_all(NULL, 3, NULL), "requests");
    MISUSE(kumiki_request_wait_any(NULL, 3, &index, NULL), "requests");
    MISUSE(kumiki_request_wait_any(&request, 1, NULL, NULL), "index");
    MISUSE(kumiki_request_cancel(&request, &done, NULL), "request");
    OK(kumiki_request_wait(&request, NULL));
    OK(kumiki_request_free(&request));
    CHECK(kumiki_message_send((kumiki_world *)0, 0, 0, 0, NULL, 0) == KUMIKI_CLOSED);
    /* A request that has ended, by another pointer to it; and one that cannot be cancelled. */
    OK(kumiki_message_start_send(world, 9, me, 1, &number, 8, &request));
    MISUSE(kumiki_request_cancel(&request, &done, NULL), "cancelled");
    freed = request;
    OK(kumiki_request_wait(&request, NULL));
    MISUSE(kumiki_request_wait(&freed, NULL), "no such request");
    MISUSE(kumiki_request_free(&freed), "no such request");
    /* Too long for its memory. */
    MISUSE(kumiki_message_receive(world, 9, me, 1, out, 7, NULL), "room");
    OK(kumiki_message_start_send(world, 9, me, 1, out, 2000, &freed));
    memset(out, 1, 2000);
    OK(kumiki_message_start_receive(world, 9, me, 1, &number, 8, &request));
    MISUSE(kumiki_request_wait(&request, NULL), "room");
    CHECK(request == NULL && number == 5);
    OK(kumiki_request_wait(&freed, NULL));
}

/* Several threads, each with messages of its own. */
static void *talk(void *number)
{
    uint64_t tag = 1000 + *(uint64_t *)number, i;
    for (i = 0; i < 200; i++) {
        uint64_t out[200], in[200];
        kumiki_request *sending = NULL;
        kumiki_message_info info;
        memset(out, (int)i, sizeof out);
        OK(kumiki_message_start_send(world, 0, next, tag, out, i % 2 ? sizeof out : 8, &sending));
        OK(kumiki_message_receive(world, 0, last, tag, in, sizeof in, &info));
        CHECK(info.bytes == (i % 2 ? sizeof out : 8) && memcmp(out, in, info.bytes) == 0);
        OK(kumiki_request_wait(&sending, NULL));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    uint64_t numbers[3] = {0, 1, 2}, i;
    for (i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, talk, &numbers[i]) == 0);
    for (i = 0; i < 3; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

/* Channels around the ring. */
static void channels(unsigned char *out, unsigned char *in)
{
    static const size_t sizes[] = {0, 1, 1000, 1024, 20000, 32768, LONGEST};
    kumiki_sender *right = NULL, *stale;
    kumiki_receiver *left = NULL, *none = NULL;
    kumiki_request *sending = NULL, *receiving = NULL, *both[2];
    kumiki_message_info infos[2];
    size_t i, bytes = 0;
    int has = 0;
    OK(kumiki_sender_create(world, next, &right));
    OK(kumiki_receiver_create(world, last, 8, 512, &left));
    for (i = 0; i < LENGTH(sizes); i++) {
        fill(out, sizes[i], me + (uint32_t)i);
        OK(kumiki_sender_start_send(right, out, sizes[i], &both[0]));
        OK(kumiki_receiver_start_receive(left, in, LONGEST, &both[1]));
        OK(kumiki_request_wait_all(both, 2, infos));
        CHECK(infos[1].bytes == sizes[i] && is_filled(in, sizes[i], last + (uint32_t)i));
        OK(kumiki_sender_start_send(right, out, sizes[i], &sending));
        OK(kumiki_receiver_receive(left, in, LONGEST, &bytes));
        CHECK(bytes == sizes[i] && is_filled(in, sizes[i], last + (uint32_t)i));
        OK(kumiki_request_wait(&sending, NULL));
    }
    OK(kumiki_sender_send(right, out, 100));
    while (!has)
        OK(kumiki_receiver_has_mail(left, &has));
    MISUSE(kumiki_receiver_receive(left, in, 50, NULL), "100 bytes");
    OK(kumiki_sender_send(right, out, 100));
    OK(kumiki_receiver_start_receive(left, in, 50, &receiving));
    MISUSE(kumiki_request_wait(&receiving, NULL), "100 bytes");
    /* A receive that is given up does not touch its memory, and a request of another kind waits with it. */
    memset(in, 9, 100);
    OK(kumiki_receiver_start_receive(left, in, 100, &receiving));
    OK(kumiki_request_free(&receiving));
    OK(kumiki_sender_send(right, out, 100));
    OK(kumiki_sync(world));
    CHECK(in[0] == 9 && in[99] == 9);
    MISUSE(kumiki_sender_create(world, ranks, &stale), "rank");
    MISUSE(kumiki_sender_create(world, 0, NULL), "sender");
    MISUSE(kumiki_receiver_create(world, 0, 1, 0, &none), "slots");
    MISUSE(kumiki_receiver_create(world, 0, 0, 0, NULL), "receiver");
    stale = right;
    OK(kumiki_sender_start_free(right, &sending));
    MISUSE(kumiki_sender_send(stale, out, 1), "no such sender");
    /* There is nothing to wait for any more. */
    for (has = 0; !has;)
        OK(kumiki_receiver_has_mail(left, &has));
    CHECK(kumiki_receiver_receive(left, in, 1, &bytes) == KUMIKI_CLOSED);
    OK(kumiki_receiver_free(left));
    OK(kumiki_request_wait(&sending, NULL));
    MISUSE(kumiki_receiver_free(left), "no such receiver");
    MISUSE(kumiki_sender_free(NULL), "NULL");
    MISUSE(kumiki_receiver_receive((const kumiki_receiver *)(const void *)world, in, 1, NULL), "receiver");
}

/* A sender that waits until it is freed; the receiver drops what it has not received. */
static void freed_channels(unsigned char *out)
{
    kumiki_sender *right = NULL;
    kumiki_receiver *left = NULL;
    kumiki_request *freeing = NULL;
    OK(kumiki_sender_create(world, next, &right));
    OK(kumiki_receiver_create(world, last, 0, 0, &left));
    OK(kumiki_sender_send(right, out, 10));
    if (me % 2 == 1) {
        OK(kumiki_sender_free(right));
        OK(kumiki_receiver_free(left));
        return;
    }
    OK(kumiki_sender_start_free(right, &freeing));
    OK(kumiki_receiver_free(left));
    OK(kumiki_request_wait(&freeing, NULL));
}

int main(void)
{
    unsigned char *out = (unsigned char *)malloc(LONGEST), *in = (unsigned char *)malloc(LONGEST);
    kumiki_request *left_over = NULL;
    OK(kumiki_init(&world));
    me = (uint32_t)kumiki_rank(world);
    ranks = (uint32_t)kumiki_ranks(world);
    next = (me + 1) % ranks;
    last = (me + ranks - 1) % ranks;
    ring(out, in);
    anybody();
    probes_and_contexts();
    options();
    misuse(out);
    threads();
    channels(out, in);
    freed_channels(out);
    /* Requests that nobody waits for end with the world. */
    OK(kumiki_message_start_receive(world, 0, KUMIKI_ANY_RANK, 12345, in, LONGEST, &left_over));
    OK(kumiki_sync(world));
    OK(kumiki_finalize(world));
    MISUSE(kumiki_request_wait(&left_over, NULL), "no such request");
    free(out);
    free(in);
    return 0;
}
