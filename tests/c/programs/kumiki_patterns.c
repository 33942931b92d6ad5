/* Halos, sparse exchanges and relays. */
#include "kumiki_check.h"

enum { X = 4, Y = 6 };

static kumiki_world *world;
static kumiki_group *group;
static uint32_t me, ranks, next, last;

static double cell(uint32_t rank, int x, int y, int field)
{
    return 10000.0 * rank + 100 * x + y + 0.25 * field;
}

static void fill(double *field, int which)
{
    int x, y;
    for (x = 0; x < X + 3; x++)
        for (y = 0; y < Y + 2; y++)
            field[x * (Y + 2) + y] = x >= 2 && x < X + 2 && y >= 1 && y < Y + 1 ? cell(me, x - 2, y - 1, which) : -1;
}

/* A ring of slabs in the first dimension, of which each has two ghost rows below and one above; the second is a ring of one. */
static void expect(const double *field, int which)
{
    int x, y;
    for (x = 0; x < X + 3; x++)
        for (y = 0; y < Y + 2; y++) {
            uint32_t rank = x < 2 ? last : x < X + 2 ? me : next;
            int at = x < 2 ? X - 2 + x : x < X + 2 ? x - 2 : 0;
            CHECK(field[x * (Y + 2) + y] == cell(rank, at, (y - 1 + Y) % Y, which));
        }
}

struct job {
    const double *field;
    kumiki_halo *halo;
    double sum;
};

static void add_up(void *context)
{
    struct job *job = (struct job *)context;
    int y;
    /* Nobody else uses the halo meanwhile. */
    CHECK(kumiki_halo_elements(job->halo) == -1 && strstr(kumiki_last_error(), "in use") != NULL);
    for (y = 0; y < Y; y++)
        job->sum += job->field[2 * (Y + 2) + 1 + y];
}

static void halos(void)
{
    uint32_t extents[2] = {0, 1};
    int periodic[2] = {1, 1}, step, y;
    size_t piece[2] = {X, Y}, ghosts[4] = {2, 1, 1, 1}, index = 0;
    int64_t place[2] = {-2, 0}, none[2] = {X + 1, 0};
    double one[(X + 3) * (Y + 2)], two[(X + 3) * (Y + 2)], sum = 0;
    void *fields[2], *same[2], *null[2] = {NULL, NULL};
    struct job job;
    kumiki_grid *grid = NULL;
    kumiki_halo *halo = NULL, *wrong = NULL;
    extents[0] = ranks;
    fields[0] = one, fields[1] = two, same[0] = same[1] = one;
    OK(kumiki_grid_create(group, 2, extents, periodic, &grid));
    OK(kumiki_halo_create(grid, sizeof(double), piece, ghosts, 1, 2, &halo));
    CHECK(kumiki_halo_elements(halo) == (X + 3) * (Y + 2) && kumiki_halo_block_bytes(halo) > 0);
    OK(kumiki_halo_index(halo, place, &index));
    CHECK(index == 1);
    MISUSE(kumiki_halo_index(halo, none, &index), "place");
    MISUSE(kumiki_halo_index(halo, NULL, &index), "place");
    for (step = 0; step < 5; step++) {
        fill(one, 0), fill(two, 1);
        OK(kumiki_halo_exchange(halo, fields));
        expect(one, 0), expect(two, 1);
        fill(one, 2), fill(two, 3);
        OK(kumiki_halo_start(halo, fields));
        MISUSE(kumiki_halo_start(halo, fields), "not finished");
        OK(kumiki_halo_finish(halo, fields));
        expect(one, 2), expect(two, 3);
        fill(one, 4), fill(two, 5);
        job.field = one, job.halo = halo, job.sum = 0;
        OK(kumiki_halo_overlap(halo, fields, add_up, &job));
        for (sum = 0, y = 0; y < Y; y++)
            sum += cell(me, 0, y, 4);
        CHECK(job.sum == sum);
        expect(one, 4), expect(two, 5);
    }
    MISUSE(kumiki_halo_exchange(halo, NULL), "fields");
    MISUSE(kumiki_halo_exchange(halo, null), "fields");
    MISUSE(kumiki_halo_exchange(halo, same), "fields");
    MISUSE(kumiki_halo_finish(halo, fields), "started");
    MISUSE(kumiki_halo_overlap(halo, fields, NULL, NULL), "work");
    MISUSE(kumiki_halo_create(grid, 0, piece, ghosts, 1, 2, &wrong), "element_bytes: 0");
    MISUSE(kumiki_halo_create(grid, 8, piece, ghosts, 1, 0, &wrong), "fields: 0");
    MISUSE(kumiki_halo_create(grid, 8, NULL, ghosts, 1, 2, &wrong), "extents");
    MISUSE(kumiki_halo_create(grid, 8, piece, NULL, 1, 2, &wrong), "ghosts");
    MISUSE(kumiki_halo_create(grid, 8, piece, ghosts, 1, 2, NULL), "halo");
    MISUSE(kumiki_halo_create(NULL, 8, piece, ghosts, 1, 2, &wrong), "grid");
    CHECK(kumiki_halo_elements(NULL) == -1);
    OK(kumiki_halo_free(halo));
    MISUSE(kumiki_halo_free(halo), "no such halo");
    /* More than there is memory for, and more ghosts than the neighbour has cells: refused on all. */
    piece[1] = (size_t)1 << 38;
    CHECK(kumiki_halo_create(grid, 8, piece, ghosts, 0, 1, &halo) == KUMIKI_OUT_OF_MEMORY && halo == NULL);
    piece[1] = Y;
    ghosts[0] = X + 1;
    CHECK(kumiki_halo_create(grid, 8, piece, ghosts, 0, 1, &halo) == KUMIKI_MISUSE && halo == NULL);
    OK(kumiki_grid_free(grid));
}

/* Particles that cross borders. */
struct particle {
    double place[3];
    uint32_t from, number;
};

static void sparse(size_t room)
{
    kumiki_sparse *exchange = NULL;
    struct particle particle;
    size_t sources = 0, bytes = 0, i, index, all = 0;
    uint32_t source = 0, before = 0, step;
    const void *data = NULL;
    OK(kumiki_sparse_create(world, room, &exchange));
    for (step = 0; step < 3; step++) {
        /* To the next rank but itself 50, and to whom is two steps away 3. */
        for (i = 0; i < 53; i++) {
            memset(&particle, 0, sizeof particle);
            particle.place[0] = step, particle.from = me, particle.number = (uint32_t)i;
            OK(kumiki_sparse_send(exchange, (me + (i < 50 ? 1 : 2)) % ranks, &particle, sizeof particle));
        }
        OK(kumiki_sparse_finish(exchange, &sources));
        CHECK(sources == (ranks < 3 ? ranks : 2));
        for (index = 0, all = 0; index < sources; index++) {
            OK(kumiki_sparse_arrival(exchange, index, &source, &data, &bytes));
            CHECK(bytes % sizeof particle == 0 && (index == 0 || source > before) && (size_t)data % 8 == 0);
            for (i = 0; i < bytes / sizeof particle; i++) {
                particle = ((const struct particle *)data)[i];
                CHECK(particle.place[0] == step && particle.from == source);
                CHECK(i == 0 || particle.number > ((const struct particle *)data)[i - 1].number);
            }
            before = source;
            all += bytes / sizeof particle;
        }
        CHECK(all == 53);
        MISUSE(kumiki_sparse_arrival(exchange, sources, &source, &data, &bytes), "index");
    }
    CHECK(kumiki_sparse_rounds(exchange) >= 3 && (room == 0 || kumiki_sparse_rounds(exchange) > 3));
    MISUSE(kumiki_sparse_send(exchange, ranks, &particle, sizeof particle), "rank");
    MISUSE(kumiki_sparse_send(exchange, 0, NULL, 8), "data");
    MISUSE(kumiki_sparse_finish(exchange, NULL), "sources");
    MISUSE(kumiki_sparse_finish(NULL, &sources), "sparse exchange");
    MISUSE(kumiki_sparse_create(world, 0, NULL), "sparse exchange");
    OK(kumiki_sparse_free(exchange));
    MISUSE(kumiki_sparse_free(exchange), "no such sparse exchange");
}

static void relays(void)
{
    kumiki_relay *relay = NULL;
    double numbers[100], sum = 0, back[100];
    uint32_t backwards[8], rank;
    size_t bytes = 0, count = 0, i;
    void *bucket = NULL;
    int64_t position;
    int has = 0;
    for (rank = 0; rank < ranks; rank++)
        backwards[rank] = ranks - 1 - rank;
    for (i = 0; i < 100; i++)
        numbers[i] = (double)i;
    OK(kumiki_relay_create(world, backwards, ranks, 8 * 16, 2, &relay));
    position = kumiki_relay_position(relay);
    CHECK(position == ranks - 1 - me && kumiki_relay_ranks(relay) == ranks);
    if (position > 0) {
        for (;;) {
            OK(kumiki_relay_receive(relay, &bucket, &bytes));
            if (bucket == NULL)
                break;
            for (i = 0; i < bytes / 8; i++)
                sum += ((double *)bucket)[i] += 1;
            count += bytes / 8;
            if (position < ranks - 1)
                OK(kumiki_relay_pass_on(relay));
        }
        CHECK(count == 100 && sum == 4950 + 100.0 * (double)position);
        MISUSE(kumiki_relay_receive(relay, NULL, &bytes), "bucket");
    } else {
        MISUSE(kumiki_relay_receive(relay, &bucket, &bytes), "first");
        if (ranks > 1)
            OK(kumiki_relay_send(relay, numbers, sizeof numbers));
        MISUSE(kumiki_relay_send(relay, NULL, 8), "data");
    }
    if (position == ranks - 1)
        MISUSE(kumiki_relay_send(relay, numbers, 8), "last");
    OK(kumiki_relay_close(relay));
    MISUSE(kumiki_relay_close(relay), "no such relay");
    OK(kumiki_sync(world));
    /* Of all, and of one alone. */
    OK(kumiki_relay_create(world, NULL, 0, 8 * 16, 2, &relay));
    if (me > 0) {
        while (!has)
            OK(kumiki_relay_has_bucket(relay, &has));
        OK(kumiki_relay_receive_into(relay, back, sizeof back));
        CHECK(memcmp(numbers, back, sizeof back) == 0);
    }
    if (me < ranks - 1)
        OK(kumiki_relay_send(relay, numbers, sizeof numbers));
    OK(kumiki_relay_close(relay));
    backwards[0] = 0;
    OK(kumiki_sync(world));
    OK(kumiki_relay_create(world, backwards, 1, 8, 1, &relay));
    CHECK((relay != NULL) == (me == 0) && (me == 0 || kumiki_relay_position(relay) == -1));
    if (relay != NULL)
        OK(kumiki_relay_close(relay));
    MISUSE(kumiki_relay_create(world, NULL, 0, 0, 1, &relay), "a relay of 1 buckets of 0");
    MISUSE(kumiki_relay_create(world, NULL, 0, 8, 1, NULL), "relay");
    OK(kumiki_sync(world));
}

int main(void)
{
    kumiki_halo *left_over = NULL;
    kumiki_grid *grid = NULL;
    uint32_t extent;
    int ring = 1;
    size_t piece = 10, ghosts[2] = {1, 1};
    OK(kumiki_init(&world));
    OK(kumiki_group_create(world, NULL, &group));
    me = (uint32_t)kumiki_rank(world);
    ranks = (uint32_t)kumiki_ranks(world);
    next = (me + 1) % ranks;
    last = (me + ranks - 1) % ranks;
    halos();
    sparse(0);
    sparse(320);
    relays();
    /* What is not freed ends with the world, whatever was made of what. */
    extent = ranks;
    OK(kumiki_grid_create(group, 1, &extent, &ring, &grid));
    OK(kumiki_halo_create(grid, 1, &piece, ghosts, 0, 1, &left_over));
    OK(kumiki_sync(world));
    OK(kumiki_finalize(world));
    MISUSE(kumiki_halo_free(left_over), "no such halo");
    return 0;
}
