/* Words and segments: waiting for a word, signals, sections, batches, streams, segment buffers. */
#include "kumiki_check.h"

enum { WORDS = 3000, SEGMENTS = 4, SEGMENT_BYTES = 512 };

static kumiki_world *world;
static uint32_t me, ranks, next, last;

static kumiki_address starter(uint32_t rank)
{
    kumiki_address address = KUMIKI_NULL;
    OK(kumiki_starter(world, rank, &address));
    return address;
}

static void signals(void)
{
    uint64_t found = 0, bytes[4] = {1, 2, 3, 4}, got[4];
    uint32_t half = 0;
    OK(kumiki_put_signal_u64(world, starter(next) + 64, bytes, sizeof bytes, starter(next), KUMIKI_ADD, 5, 0));
    OK(kumiki_wait_until_u64(world, starter(me), KUMIKI_AT_LEAST, 5, last, KUMIKI_FOREVER, &found));
    CHECK(found == 5);
    OK(kumiki_get(world, got, starter(me) + 64, sizeof got));
    CHECK(memcmp(bytes, got, sizeof got) == 0);
    OK(kumiki_put_signal_u32(world, starter(next) + 64, bytes, 4, starter(next) + 8, KUMIKI_SWAP, 9, 0));
    OK(kumiki_wait_until_u32(world, starter(me) + 8, KUMIKI_EQUAL, 9, KUMIKI_ANY_RANK, 60000, &half));
    CHECK(half == 9);
    OK(kumiki_wait_until_u32(world, starter(me) + 8, KUMIKI_NOT_EQUAL, 8, KUMIKI_ANY_RANK, 60000, NULL));
    OK(kumiki_wait_until_u32(world, starter(me) + 8, KUMIKI_LESS, 10, KUMIKI_ANY_RANK, 60000, NULL));
    OK(kumiki_wait_until_u32(world, starter(me) + 8, KUMIKI_AT_MOST, 9, KUMIKI_ANY_RANK, 60000, NULL));
    OK(kumiki_wait_until_u32(world, starter(me) + 8, KUMIKI_GREATER, 8, KUMIKI_ANY_RANK, 60000, NULL));
    CHECK(kumiki_wait_until_u64(world, starter(me), KUMIKI_LESS, 5, KUMIKI_ANY_RANK, 10, &found) == KUMIKI_TIMEOUT);
    OK(kumiki_wake(world, me));
    MISUSE(kumiki_wait_until_u64(world, starter(me), 7, 5, KUMIKI_ANY_RANK, 10, &found), "comparison");
    MISUSE(kumiki_wait_until_u64(world, starter(me), 1, 5, ranks, 10, &found), "from");
    MISUSE(kumiki_put_signal_u64(world, starter(next) + 64, NULL, 8, starter(next), KUMIKI_ADD, 5, 0), "from");
    MISUSE(kumiki_put_signal_u64(world, starter(next) + 64, bytes, 8, starter(next), 99, 5, 0), "99");
    OK(kumiki_sync(world));
}

/* A block of a matrix of another rank, from every second element of a vector, and back turned round. */
static void sections(void)
{
    kumiki_stride block[2] = {{3, 20}, {4, 1}}, every[1] = {{12, 2}}, backwards[2] = {{3, -20}, {4, -1}}, plain[1] = {{12, 1}};
    kumiki_stride wide[1] = {{(size_t)1 << 62, (ptrdiff_t)1 << 60}};
    double from[24], into[12], matrix[100];
    kumiki_address there = starter(next) + 1024;
    int i, row;
    memset(matrix, 0, sizeof matrix);
    OK(kumiki_put(world, starter(me) + 1024, matrix, sizeof matrix));
    OK(kumiki_sync(world));
    for (i = 0; i < 24; i++)
        from[i] = me + i / 2.0;
    OK(kumiki_put_section(world, there + 8 * 25, block, 2, from, every, 1, sizeof(double)));
    OK(kumiki_get_section(world, into, plain, 1, there + 8 * (25 + 43), backwards, 2, sizeof(double)));
    for (i = 0; i < 12; i++)
        CHECK(into[i] == me + 11 - i);
    OK(kumiki_sync(world));
    OK(kumiki_get(world, matrix, starter(me) + 1024, sizeof matrix));
    for (row = 0; row < 3; row++)
        for (i = 0; i < 4; i++)
            CHECK(matrix[25 + 20 * row + i] == last + 4 * row + i);
    CHECK(matrix[24] == 0 && matrix[29] == 0);
    MISUSE(kumiki_put_section(world, there, block, 2, NULL, plain, 1, 8), "from");
    MISUSE(kumiki_put_section(world, there, NULL, 2, from, plain, 1, 8), "there");
    MISUSE(kumiki_put_section(world, there, block, 2, from, backwards, 2, 8), "here");
    MISUSE(kumiki_put_section(world, there, block, 2, from, plain, 1, 0), "element_bytes");
    MISUSE(kumiki_put_section(world, there, wide, 1, from, plain, 1, 8), "there");
    MISUSE(kumiki_get_section(world, into, every, 1, there, plain, 0, 8), "");
    OK(kumiki_sync(world));
}

static void batches(void)
{
    kumiki_address *words = (kumiki_address *)malloc(WORDS * sizeof *words), table = KUMIKI_NULL, tables[8];
    uint64_t *values = (uint64_t *)malloc(WORDS * sizeof *values), *old = (uint64_t *)malloc(WORDS * sizeof *old), sum = 0;
    uint32_t *halves = (uint32_t *)malloc(WORDS * sizeof *halves), *olds = (uint32_t *)malloc(WORDS * sizeof *olds), rank;
    kumiki_stream *stream = NULL;
    size_t i;
    OK(kumiki_alloc(world, WORDS * 8, &table));
    OK(kumiki_put(world, starter(me) + 2048, &table, 8));
    OK(kumiki_sync(world));
    for (rank = 0; rank < ranks; rank++)
        OK(kumiki_get(world, &tables[rank], starter(rank) + 2048, 8));
    /* Word i of my share is on rank i % ranks: nobody else writes there. */
    for (i = 0; i < WORDS; i++) {
        words[i] = tables[i % ranks] + 8 * (me + ranks * (i / ranks % (WORDS / ranks)));
        values[i] = 1000 * me + i;
        halves[i] = (uint32_t)i;
    }
    OK(kumiki_put_many_u64(world, words, values, WORDS / 2));
    OK(kumiki_get_many_u64(world, old, words, WORDS / 2));
    CHECK(memcmp(old, values, WORDS / 2 * 8) == 0);
    OK(kumiki_fetch_many_u64(world, KUMIKI_ADD, words, values, NULL, old, WORDS / 2));
    CHECK(memcmp(old, values, WORDS / 2 * 8) == 0);
    OK(kumiki_fetch_many_u64(world, KUMIKI_ADD, words, values, NULL, NULL, WORDS / 2));
    OK(kumiki_get_many_u64(world, old, words, WORDS / 2));
    for (i = 0; i < WORDS / 2; i++)
        CHECK(old[i] == 3 * values[i]);
    OK(kumiki_fetch_many_u64(world, KUMIKI_COMPARE_SWAP, words, old, values, old, WORDS / 2));
    OK(kumiki_put_many_u32(world, words, halves, WORDS / 2));
    OK(kumiki_fetch_many_u32(world, KUMIKI_MAX, words, halves, NULL, olds, WORDS / 2));
    CHECK(memcmp(olds, halves, WORDS / 2 * 4) == 0);
    OK(kumiki_get_many_u32(world, olds, words, WORDS / 2));
    CHECK(memcmp(olds, halves, WORDS / 2 * 4) == 0);
    OK(kumiki_sync(world));
    /* Everybody counts everywhere. */
    memset(values, 0, WORDS * 8);
    OK(kumiki_put(world, table, values, WORDS * 8));
    OK(kumiki_sync(world));
    OK(kumiki_stream_create(world, &stream));
    for (i = 0; i < WORDS; i++) {
        OK(kumiki_stream_update_u64(stream, KUMIKI_ADD, tables[i % ranks] + 8 * (i % 100), 1, 0));
        OK(kumiki_stream_update_u32(stream, KUMIKI_ADD, tables[i % ranks] + 8 * (100 + i % 100), 2, 0));
    }
    OK(kumiki_stream_put_u64(stream, tables[next] + 8 * 300, 7));
    OK(kumiki_stream_put_u32(stream, tables[next] + 8 * 301, 8));
    OK(kumiki_stream_flush(stream));
    CHECK(kumiki_stream_bytes(stream) >= 0 && kumiki_stream_bytes(stream) <= 65536 * (int64_t)ranks);
    OK(kumiki_sync(world));
    OK(kumiki_get(world, values, table, WORDS * 8));
    for (i = 0; i < 200; i++)
        sum += values[i];
    CHECK(sum == 3 * (uint64_t)ranks * ((WORDS + ranks - 1 - me) / ranks) && values[300] == 7 && values[301] == 8);
    MISUSE(kumiki_stream_update_u64(stream, 99, table, 1, 0), "99");
    CHECK(kumiki_stream_put_u64(stream, 8, 1) != KUMIKI_SUCCESS || kumiki_stream_flush(stream) != KUMIKI_SUCCESS);
    (void)kumiki_stream_flush(stream);
    OK(kumiki_stream_free(stream));
    MISUSE(kumiki_stream_flush(stream), "no such stream");
    MISUSE(kumiki_stream_create(world, NULL), "stream");
    MISUSE(kumiki_stream_put_u32(NULL, table, 1), "stream");
    CHECK(kumiki_stream_bytes(NULL) == -1);
    MISUSE(kumiki_put_many_u64(world, NULL, values, 3), "words");
    MISUSE(kumiki_put_many_u64(world, words, NULL, 3), "values");
    MISUSE(kumiki_get_many_u64(world, NULL, words, 3), "into");
    MISUSE(kumiki_fetch_many_u64(world, 99, words, values, NULL, NULL, 3), "99");
    MISUSE(kumiki_fetch_many_u64(world, KUMIKI_COMPARE_SWAP, words, values, NULL, NULL, 3), "second");
    MISUSE(kumiki_get_many_u64(world, values, words, ~(size_t)0), "words");
    OK(kumiki_put_many_u64(world, NULL, NULL, 0));
    OK(kumiki_sync(world));
    OK(kumiki_dealloc(world, table));
    free(words);
    free(values);
    free(old);
    free(halves);
    free(olds);
}

static void segments(void)
{
    static double out[SEGMENTS * SEGMENT_BYTES / 8], in[SEGMENTS * SEGMENT_BYTES / 8];
    kumiki_segments *source = NULL, *destination = NULL, *none = NULL;
    void *segment = NULL;
    uint64_t head = 0, tail = 0, sent = 0;
    int step, i;
    OK(kumiki_segments_source(world, next, out, SEGMENT_BYTES, SEGMENTS, &source));
    OK(kumiki_segments_destination(world, last, in, SEGMENT_BYTES, SEGMENTS, &destination));
    for (step = 0; step < 20; step++) {
        OK(kumiki_segments_wait(source, &segment));
        CHECK(segment == (char *)out + step % SEGMENTS * SEGMENT_BYTES);
        for (i = 0; i < SEGMENT_BYTES / 8; i++)
            ((double *)segment)[i] = me + 1000.0 * step;
        OK(kumiki_segments_advance(source));
        do
            OK(kumiki_segments_try(destination, &segment));
        while (segment == NULL);
        CHECK(segment == (char *)in + step % SEGMENTS * SEGMENT_BYTES);
        for (i = 0; i < SEGMENT_BYTES / 8; i++)
            CHECK(((double *)segment)[i] == last + 1000.0 * step);
        OK(kumiki_segments_advance(destination));
    }
    MISUSE(kumiki_segments_advance(destination), "wait for one");
    OK(kumiki_segments_counts(source, &head, &tail, &sent));
    CHECK(tail == 20 && head <= 20 && sent <= 20);
    OK(kumiki_segments_counts(destination, &head, NULL, NULL));
    CHECK(head == 20);
    MISUSE(kumiki_segments_source(world, next, NULL, 8, 4, &none), "memory");
    MISUSE(kumiki_segments_source(world, next, out, 0, 4, &none), "segment_bytes");
    MISUSE(kumiki_segments_destination(world, ranks, in, 8, 4, &none), "rank");
    MISUSE(kumiki_segments_wait(source, NULL), "segment");
    MISUSE(kumiki_segments_wait(none, &segment), "NULL");
    OK(kumiki_segments_free(source));
    OK(kumiki_sync(world));
    OK(kumiki_segments_free(destination));
    MISUSE(kumiki_segments_free(destination), "no such segment buffer");
    /* The memory is the program's again: it can be registered. */
    OK(kumiki_segments_source(world, me, out, SEGMENT_BYTES, SEGMENTS, &source));
    OK(kumiki_segments_free(source));
    OK(kumiki_segments_destination(world, me, in, SEGMENT_BYTES, SEGMENTS, &destination));
    OK(kumiki_segments_free(destination));
}

int main(void)
{
    OK(kumiki_init(&world));
    me = (uint32_t)kumiki_rank(world);
    ranks = (uint32_t)kumiki_ranks(world);
    next = (me + 1) % ranks;
    last = (me + ranks - 1) % ranks;
    signals();
    sections();
    batches();
    segments();
    OK(kumiki_sync(world));
    OK(kumiki_finalize(world));
    return 0;
}
