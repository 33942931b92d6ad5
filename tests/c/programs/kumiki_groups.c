/* Groups, grids and collectives: every call, types and operations, in place, without waiting, and what is refused. */
#include "kumiki_check.h"

enum { LONG = 20000 };

static kumiki_world *world;
static kumiki_group *group;
static uint32_t me, ranks;

/* Numbers of all types. Sums of 0 to n - 1 and the like are small enough for all of them. */
#define NUMBERS(X) X(int8_t, KUMIKI_I8) X(uint8_t, KUMIKI_U8) X(int16_t, KUMIKI_I16) X(uint16_t, KUMIKI_U16) X(int32_t, KUMIKI_I32) \
    X(uint32_t, KUMIKI_U32) X(int64_t, KUMIKI_I64) X(uint64_t, KUMIKI_U64) X(float, KUMIKI_F32) X(double, KUMIKI_F64)
#define INTEGERS(X) X(int8_t, KUMIKI_I8) X(uint8_t, KUMIKI_U8) X(int16_t, KUMIKI_I16) X(uint16_t, KUMIKI_U16) X(int32_t, KUMIKI_I32) \
    X(uint32_t, KUMIKI_U32) X(int64_t, KUMIKI_I64) X(uint64_t, KUMIKI_U64)
#define PAIRS(X) X(kumiki_i32_at, KUMIKI_I32_AT) X(kumiki_u32_at, KUMIKI_U32_AT) X(kumiki_f32_at, KUMIKI_F32_AT) \
    X(kumiki_i64_at, KUMIKI_I64_AT) X(kumiki_u64_at, KUMIKI_U64_AT) X(kumiki_f64_at, KUMIKI_F64_AT)

static void numbers(void)
{
    uint32_t sum = 0, product = 1, rank;
    for (rank = 0; rank < ranks; rank++) {
        sum += rank + 1;
        product *= rank + 1;
    }
#define NUMBER(type, name)                                                                          \
    {                                                                                               \
        type data[3];                                                                               \
        data[0] = (type)(me + 1), data[1] = (type)2, data[2] = (type)(10 - me);                     \
        OK(kumiki_group_allreduce(group, data, 3, name, KUMIKI_ADD));                               \
        CHECK(data[0] == (type)sum && data[1] == (type)(2 * ranks));                                \
        data[0] = (type)(me + 1);                                                                   \
        OK(kumiki_group_allreduce(group, data, 1, name, KUMIKI_MULTIPLY));                          \
        CHECK(data[0] == (type)product);                                                            \
        data[0] = (type)(me + 1), data[1] = (type)(10 - me);                                        \
        OK(kumiki_group_reduce(group, ranks - 1, data, 2, name, KUMIKI_MIN));                       \
        CHECK(me != ranks - 1 ? data[0] == (type)(me + 1) : data[0] == 1 && data[1] == (type)(11 - ranks)); \
        data[0] = (type)(me + 1), data[1] = (type)(10 - me);                                        \
        OK(kumiki_group_scan(group, data, 2, name, KUMIKI_MAX));                                    \
        CHECK(data[0] == (type)(me + 1) && data[1] == 10);                                          \
        data[0] = (type)1;                                                                          \
        OK(kumiki_group_exscan(group, data, 1, name, KUMIKI_ADD));                                  \
        CHECK(data[0] == (type)(me == 0 ? 1 : me));                                                 \
    }
    NUMBERS(NUMBER)
#define INTEGER(type, name)                                                                         \
    {                                                                                               \
        type data[1];                                                                               \
        data[0] = (type)(1 << me | 64);                                                             \
        OK(kumiki_group_allreduce(group, data, 1, name, KUMIKI_OR));                                \
        CHECK(data[0] == (type)((1 << ranks) - 1 + 64));                                            \
        data[0] = (type)(1 << me | 64);                                                             \
        OK(kumiki_group_allreduce(group, data, 1, name, KUMIKI_AND));                               \
        CHECK(data[0] == (type)(ranks == 1 ? 65 : 64));                                             \
        data[0] = (type)(1 << me | 64);                                                             \
        OK(kumiki_group_allreduce(group, data, 1, name, KUMIKI_XOR));                               \
        CHECK(data[0] == (type)((1 << ranks) - 1 + (ranks % 2) * 64));                              \
    }
    INTEGERS(INTEGER)
#define PAIR(type, name)                                                                            \
    {                                                                                               \
        type data[2];                                                                               \
        data[0].value = 5, data[0].place = 100 + me;                                                \
        data[1].value = (me % 2 ? 7 : 3), data[1].place = me;                                       \
        OK(kumiki_group_allreduce(group, data, 2, name, KUMIKI_MAX));                               \
        CHECK(data[0].value == 5 && data[0].place == 100);                                          \
        CHECK(data[1].value == (ranks > 1 ? 7 : 3) && data[1].place == (ranks > 1));                \
        data[1].value = (me % 2 ? 2 : 3), data[1].place = me;                                       \
        OK(kumiki_group_allreduce(group, data, 2, name, KUMIKI_MIN));                               \
        CHECK(data[1].value == (ranks > 1 ? 2 : 3) && data[1].place == (ranks > 1));                \
        CHECK(kumiki_group_allreduce(group, data, 2, name, KUMIKI_ADD) == KUMIKI_MISUSE);           \
    }
    PAIRS(PAIR)
}

/* Straight lines y = ax + b, one after the other: the order of the members matters. */
struct line {
    double a, b;
};

static void after(const void *left, const void *right, void *result, size_t count, void *context)
{
    size_t i;
    if (++*(int *)context == 1)
        MISUSE(kumiki_group_barrier(group), "its own group");
    for (i = 0; i < count; i++) {
        struct line l = ((const struct line *)left)[i], r = ((const struct line *)right)[i];
        ((struct line *)result)[i].a = r.a * l.a;
        ((struct line *)result)[i].b = r.a * l.b + r.b;
    }
}

/* Elements of three bytes, of which the largest counts. */
static void largest(const void *left, const void *right, void *result, size_t count, void *context)
{
    const unsigned char *l = (const unsigned char *)left, *r = (const unsigned char *)right;
    size_t i;
    (void)context;
    for (i = 0; i < count; i++)
        memmove((unsigned char *)result + 3 * i, memcmp(l + 3 * i, r + 3 * i, 3) < 0 ? r + 3 * i : l + 3 * i, 3);
}

static void own_operations(void)
{
    int ordered = 0, any = 0, calls = 0;
    struct line *lines = (struct line *)malloc(LONG * sizeof *lines), expected = {1, 0};
    unsigned char triples[7][3];
    uint32_t rank;
    size_t i;
    kumiki_request *request = NULL;
    OK(kumiki_operation_create(sizeof(struct line), 0, after, &calls, &ordered));
    OK(kumiki_operation_create(3, 1, largest, NULL, &any));
    CHECK(ordered != any && ordered > 1000);
    for (rank = 0; rank < ranks; rank++) {
        expected.a = (rank + 2) * expected.a;
        expected.b = (rank + 2) * expected.b + rank;
    }
    for (i = 0; i < LONG; i++)
        lines[i].a = me + 2, lines[i].b = me;
    OK(kumiki_group_allreduce(group, lines, 3, KUMIKI_OWN, ordered));
    CHECK(lines[2].a == expected.a && lines[2].b == expected.b && lines[3].a == me + 2);
    lines[0] = lines[1] = lines[2] = lines[3];
    OK(kumiki_group_allreduce(group, lines, LONG, KUMIKI_OWN, ordered));
    CHECK(lines[0].a == expected.a && lines[LONG - 1].b == expected.b);
    lines[0].a = me + 2, lines[0].b = me;
    OK(kumiki_group_start_allreduce(group, lines, 1, KUMIKI_OWN, ordered, &request));
    OK(kumiki_request_wait(&request, NULL));
    CHECK(lines[0].b == expected.b && (calls > 0 || ranks == 1));
    for (i = 0; i < 7; i++)
        triples[i][0] = 1, triples[i][1] = (unsigned char)me, triples[i][2] = (unsigned char)i;
    OK(kumiki_group_allreduce(group, triples, 7, KUMIKI_OWN, any));
    for (i = 0; i < 7; i++)
        CHECK(triples[i][1] == ranks - 1 && triples[i][2] == i);
    MISUSE(kumiki_group_allreduce(group, lines, 1, KUMIKI_F64, ordered), "type");
    MISUSE(kumiki_group_allreduce(group, lines, 1, KUMIKI_OWN, KUMIKI_ADD), "KUMIKI_OWN");
    OK(kumiki_operation_free(ordered));
    OK(kumiki_operation_free(any));
    MISUSE(kumiki_operation_free(any), "freed");
    MISUSE(kumiki_group_allreduce(group, lines, 1, KUMIKI_OWN, ordered), "freed");
    MISUSE(kumiki_operation_create(0, 0, after, NULL, &any), "element_bytes");
    MISUSE(kumiki_operation_create(8, 0, NULL, NULL, &any), "combine");
    MISUSE(kumiki_operation_create(8, 0, after, NULL, NULL), "operation");
    free(lines);
}

/* What moves bytes, short and long, with uneven parts, in place. */
static void moves(size_t count)
{
    int64_t *data = (int64_t *)malloc(8 * count * (ranks + 1)), *all = (int64_t *)malloc(8 * count * ranks);
    int64_t *part = (int64_t *)malloc(8 * count);
    size_t counts[8], outs[8], i, at;
    uint32_t rank, root = ranks / 2;
    for (i = 0; i < count; i++)
        part[i] = me == root ? (int64_t)i : -1;
    OK(kumiki_group_broadcast(group, root, part, 8 * count));
    CHECK(part[0] == 0 && part[count - 1] == (int64_t)count - 1);
    for (i = 0; i < count; i++)
        part[i] = 1000 * me + (int64_t)i;
    memset(all, 0, 8 * count * ranks);
    OK(kumiki_group_gather(group, root, part, 8 * count, all));
    for (rank = 0; me == root && rank < ranks; rank++)
        CHECK(all[rank * count] == 1000 * (int64_t)rank && all[rank * count + count - 1] == 1000 * (int64_t)rank + (int64_t)count - 1);
    memset(all, 0, 8 * count * ranks);
    memcpy(all + me * count, part, 8 * count);
    OK(kumiki_group_gather(group, root, me == root ? KUMIKI_IN_PLACE : part, 8 * count, me == root ? all : NULL));
    for (rank = 0; me == root && rank < ranks; rank++)
        CHECK(all[rank * count + count - 1] == 1000 * (int64_t)rank + (int64_t)count - 1);
    memset(all, 0, 8 * count * ranks);
    OK(kumiki_group_allgather(group, part, 8 * count, all));
    for (rank = 0; rank < ranks; rank++)
        CHECK(all[rank * count] == 1000 * (int64_t)rank && all[rank * count + count - 1] == 1000 * (int64_t)rank + (int64_t)count - 1);
    for (rank = 0; rank < ranks; rank++)
        if (rank != me)
            memset(all + rank * count, 0, 8 * count);
    OK(kumiki_group_allgather(group, KUMIKI_IN_PLACE, 8 * count, all));
    for (rank = 0; rank < ranks; rank++)
        CHECK(all[rank * count + count - 1] == 1000 * (int64_t)rank + (int64_t)count - 1);
    memset(part, 0, 8 * count);
    OK(kumiki_group_scatter(group, root, all, part, 8 * count));
    CHECK(part[0] == 1000 * (int64_t)me && part[count - 1] == 1000 * (int64_t)me + (int64_t)count - 1);
    memset(part, 0, 8 * count);
    OK(kumiki_group_scatter(group, root, me == root ? all : NULL, me == root ? KUMIKI_IN_PLACE : part, 8 * count));
    CHECK(me == root || part[count - 1] == 1000 * (int64_t)me + (int64_t)count - 1);
    /* Member i has i elements. */
    for (rank = 0; rank < ranks; rank++)
        counts[rank] = 8 * (rank < count ? rank : count);
    for (i = 0; i < count; i++)
        part[i] = 10 * me + (int64_t)i;
    memset(all, 255, 8 * count * ranks);
    OK(kumiki_group_gatherv(group, root, part, counts[me], counts, all));
    for (rank = 0, at = 0; me == root && rank < ranks; at += counts[rank++] / 8)
        CHECK(counts[rank] == 0 || (all[at] == 10 * (int64_t)rank && all[at + counts[rank] / 8 - 1] == 10 * (int64_t)rank + (int64_t)counts[rank] / 8 - 1));
    OK(kumiki_group_allgatherv(group, part, counts[me], counts, all));
    for (rank = 0, at = 0; rank < ranks; at += counts[rank++] / 8) {
        CHECK(counts[rank] == 0 || all[at] == 10 * (int64_t)rank);
        if (rank != me)
            memset(all + at, 0, counts[rank]);
    }
    OK(kumiki_group_allgatherv(group, KUMIKI_IN_PLACE, 0, counts, all));
    for (rank = 0, at = 0; rank < ranks; at += counts[rank++] / 8)
        CHECK(counts[rank] == 0 || all[at] == 10 * (int64_t)rank);
    OK(kumiki_group_gatherv(group, root, me == root ? KUMIKI_IN_PLACE : part, counts[me], counts, all));
    memset(part, 0, 8 * count);
    OK(kumiki_group_scatterv(group, root, all, counts, part, counts[me]));
    CHECK(counts[me] == 0 || part[counts[me] / 8 - 1] == 10 * (int64_t)me + (int64_t)counts[me] / 8 - 1);
    OK(kumiki_group_scatterv(group, root, all, counts, me == root ? KUMIKI_IN_PLACE : part, counts[me]));
    for (i = 0; i < count * ranks; i++)
        data[i] = 1000 * me + (int64_t)(i / count);
    OK(kumiki_group_alltoall(group, data, all, 8 * count));
    for (rank = 0; rank < ranks; rank++)
        CHECK(all[rank * count] == 1000 * (int64_t)rank + me && all[rank * count + count - 1] == 1000 * (int64_t)rank + me);
    for (rank = 0; rank < ranks; rank++) {
        outs[rank] = 8 * ((me + rank) % 2);
        counts[rank] = 8 * ((me + rank) % 2);
    }
    for (i = 0; i < ranks; i++)
        data[i] = 7000 + me;
    OK(kumiki_group_alltoallv(group, data, outs, all, counts));
    for (rank = 0, at = 0; rank < ranks; at += counts[rank++] / 8)
        CHECK(counts[rank] == 0 || all[at] == 7000 + (int64_t)rank);
    for (rank = 0; rank < ranks; rank++)
        counts[rank] = rank < count ? rank : count;
    for (i = 0; i < count * ranks; i++)
        data[i] = (int64_t)i;
    OK(kumiki_group_reduce_scatter(group, data, counts, KUMIKI_I64, KUMIKI_ADD));
    for (rank = 0, at = 0; rank < me; rank++)
        at += counts[rank];
    CHECK(counts[me] == 0 || (data[at] == (int64_t)(at * ranks) && data[at + counts[me] - 1] == (int64_t)((at + counts[me] - 1) * ranks)));
    free(data);
    free(all);
    free(part);
}

/* Several at a time, ended in any order. */
static void started(size_t count)
{
    double *sums = (double *)malloc(8 * count), *firsts = (double *)malloc(8 * count), *rooted = (double *)malloc(8 * count);
    double *all = (double *)malloc(8 * count * ranks), *turned = (double *)malloc(8 * count * ranks), *out = (double *)malloc(8 * count * ranks);
    kumiki_request *requests[6];
    int done = 0;
    size_t i, index, left;
    uint64_t before = 0, during = 0, behind = 0;
    uint32_t rank;
    OK(kumiki_group_barrier(group));
    OK(kumiki_ledger_bytes(world, "communication", &before));
    for (i = 0; i < count; i++)
        sums[i] = rooted[i] = me + 1, firsts[i] = me;
    for (i = 0; i < count * ranks; i++)
        out[i] = 100.0 * me + (double)(i / count);
    OK(kumiki_group_start_barrier(group, &requests[0]));
    OK(kumiki_group_start_allreduce(group, sums, count, KUMIKI_F64, KUMIKI_ADD, &requests[1]));
    OK(kumiki_group_start_broadcast(group, 0, firsts, 8 * count, &requests[2]));
    OK(kumiki_group_start_reduce(group, ranks - 1, rooted, count, KUMIKI_F64, KUMIKI_MAX, &requests[3]));
    OK(kumiki_group_start_allgather(group, out, 8 * count, all, &requests[4]));
    OK(kumiki_group_start_alltoall(group, out, turned, 8 * count, &requests[5]));
    MISUSE(kumiki_group_free(group), "in use");
    OK(kumiki_ledger_bytes(world, "communication", &during));
    OK(kumiki_request_wait(&requests[3], NULL));
    while (!done)
        OK(kumiki_request_test(&requests[1], &done, NULL));
    for (left = 4; left > 0; left--) {
        OK(kumiki_request_wait_any(requests, 6, &index, NULL));
        CHECK(index < 6 && requests[index] == NULL);
    }
    CHECK(sums[0] == ranks * (ranks + 1) / 2.0 && sums[count - 1] == sums[0] && firsts[count - 1] == 0);
    CHECK(rooted[count - 1] == (me == ranks - 1 ? ranks : me + 1));
    for (rank = 0; rank < ranks; rank++)
        CHECK(all[rank * count + count - 1] == 100.0 * rank && turned[rank * count] == 100.0 * rank + me);
    /* One that nobody asks for leaves its memory alone, and goes on. */
    sums[0] = 5;
    OK(kumiki_group_start_allreduce(group, sums, 1, KUMIKI_F64, KUMIKI_ADD, &requests[0]));
    OK(kumiki_request_free(&requests[0]));
    OK(kumiki_group_barrier(group));
    CHECK(sums[0] == 5);
    /* What was copied for them is in the books meanwhile, and then no more. */
    OK(kumiki_ledger_bytes(world, "communication", &behind));
    CHECK(during >= before + 8 * count * (3 + 2 * ranks) && behind == before);
    free(sums);
    free(firsts);
    free(rooted);
    free(all);
    free(turned);
    free(out);
}

static void parts(void)
{
    kumiki_group *odd = NULL, *none = NULL, *some = NULL, *row = NULL;
    kumiki_group_options fixed = {1 << 16, 1};
    kumiki_grid *grid = NULL;
    uint32_t extents[2] = {0, 1}, place[2] = {9, 9}, members[2] = {0, 0}, sum = me;
    int periodic[2] = {1, 0}, wrong[2] = {1, 0};
    int64_t there[2] = {-1, 0}, member = 0;
    size_t dimension = 0, bytes = 0;
    char text[60];
    OK(kumiki_group_split(group, me % 2, -(int64_t)me, &odd));
    CHECK(kumiki_group_ranks(odd) == (ranks + 1 - me % 2) / 2 && kumiki_group_world_rank(odd, 0) >= me);
    CHECK(kumiki_group_world_rank(odd, (uint32_t)kumiki_group_rank(odd)) == me);
    OK(kumiki_group_barrier(odd));
    OK(kumiki_group_free(odd));
    OK(kumiki_group_split(group, me == 0 ? 3 : -1, 0, &none));
    CHECK((none != NULL) == (me == 0));
    if (none != NULL)
        OK(kumiki_group_free(none));
    members[0] = ranks - 1;
    OK(kumiki_group_subset(group, members, ranks > 1 ? 2 : 1, &some));
    CHECK((some != NULL) == (me == 0 || me == ranks - 1));
    if (some != NULL) {
        CHECK(kumiki_group_world_rank(some, 0) == ranks - 1);
        OK(kumiki_group_allreduce(some, &sum, 1, KUMIKI_U32, KUMIKI_ADD));
        CHECK(sum == ranks - 1);
        OK(kumiki_group_free(some));
    }
    OK(kumiki_group_create(world, &fixed, &odd));
    CHECK(kumiki_group_block_bytes(odd) > 0 && kumiki_group_block_bytes(odd) <= 1 << 16);
    OK(kumiki_group_force(odd, "tree"));
    sum = me;
    OK(kumiki_group_allreduce(odd, &sum, 1, KUMIKI_U32, KUMIKI_MAX));
    CHECK(sum == ranks - 1);
    OK(kumiki_group_force(odd, NULL));
    MISUSE(kumiki_group_force(odd, "magic"), "magic");
    OK(kumiki_group_decisions(odd, text, sizeof text, &bytes));
    CHECK(strlen(text) < sizeof text && bytes >= strlen(text) + 1);
    MISUSE(kumiki_group_decisions(odd, NULL, 5, &bytes), "text");
    OK(kumiki_group_free(odd));
    MISUSE(kumiki_group_barrier(odd), "no such group");
    /* A ring of rows of one. */
    extents[0] = ranks;
    OK(kumiki_grid_create(group, 2, extents, periodic, &grid));
    OK(kumiki_grid_coordinates(grid, ranks - 1, place));
    CHECK(place[0] == ranks - 1 && place[1] == 0);
    OK(kumiki_grid_member_at(grid, there, &member));
    CHECK(member == ranks - 1);
    there[1] = 1;
    OK(kumiki_grid_member_at(grid, there, &member));
    CHECK(member == -1);
    OK(kumiki_grid_neighbour(grid, 0, 1, &member));
    CHECK(member == (me + 1) % ranks);
    OK(kumiki_grid_neighbour(grid, 1, 1, &member));
    CHECK(member == -1);
    OK(kumiki_grid_part(grid, &dimension, 1, &row));
    CHECK(kumiki_group_ranks(row) == ranks && kumiki_group_rank(row) == me);
    OK(kumiki_group_free(row));
    MISUSE(kumiki_grid_coordinates(grid, ranks, place), "member");
    MISUSE(kumiki_grid_coordinates(grid, 0, NULL), "place");
    MISUSE(kumiki_grid_neighbour(grid, 2, 1, &member), "dimension");
    dimension = 5;
    MISUSE(kumiki_grid_part(grid, &dimension, 1, &row), "dimension");
    OK(kumiki_grid_free(grid));
    extents[0] = ranks + 1;
    MISUSE(kumiki_grid_create(group, 2, extents, wrong, &grid), "grid");
    MISUSE(kumiki_grid_create(group, 2, NULL, wrong, &grid), "extents");
    MISUSE(kumiki_grid_create(group, 0, extents, wrong, &grid), "dimensions");
    CHECK(grid == NULL);
    extents[0] = ranks;
    OK(kumiki_grid_create(group, 2, extents, periodic, &grid));
    MISUSE(kumiki_group_free(group), "in use");
    OK(kumiki_grid_free(grid));
    MISUSE(kumiki_grid_free(grid), "no such grid");
}

static void misuse(void)
{
    uint64_t number = 1, numbers_[9];
    size_t huge[8], i;
    kumiki_group *none = NULL;
    kumiki_request *request = NULL;
    uint32_t twice[2] = {0, 0};
    for (i = 0; i < 8; i++)
        huge[i] = ~(size_t)0;
    MISUSE(kumiki_group_create(world, NULL, NULL), "group");
    MISUSE(kumiki_group_allreduce(NULL, &number, 1, KUMIKI_U64, KUMIKI_ADD), "group");
    MISUSE(kumiki_group_allreduce((kumiki_group *)(void *)&number, &number, 1, KUMIKI_U64, KUMIKI_ADD), "no such group");
    MISUSE(kumiki_group_allreduce(group, NULL, 1, KUMIKI_U64, KUMIKI_ADD), "data");
    MISUSE(kumiki_group_allreduce(group, &number, ~(size_t)0, KUMIKI_U64, KUMIKI_ADD), "count");
    MISUSE(kumiki_group_allreduce(group, &number, 1, 77, KUMIKI_ADD), "type");
    MISUSE(kumiki_group_allreduce(group, &number, 1, -1, KUMIKI_ADD), "type");
    MISUSE(kumiki_group_allreduce(group, &number, 1, KUMIKI_U64, 77), "operation: there is none of number 77");
    MISUSE(kumiki_group_allreduce(group, &number, 1, KUMIKI_F64, KUMIKI_AND), "KUMIKI_AND does not combine elements of KUMIKI_F64");
    MISUSE(kumiki_group_start_allreduce(group, &number, 1, KUMIKI_F64, KUMIKI_XOR, &request), "operation");
    MISUSE(kumiki_group_start_allreduce(group, &number, 1, KUMIKI_F64, KUMIKI_ADD, NULL), "request");
    MISUSE(kumiki_group_start_broadcast(group, 0, NULL, 8, &request), "data");
    MISUSE(kumiki_group_start_allgather(group, numbers_, 8, numbers_, &request), "overlap");
    MISUSE(kumiki_group_start_alltoall(group, numbers_, NULL, 8, &request), "into");
    MISUSE(kumiki_group_broadcast(group, 0, NULL, 8), "data");
    MISUSE(kumiki_group_broadcast(group, ranks, &number, 8), "root");
    MISUSE(kumiki_group_reduce(group, ranks, &number, 1, KUMIKI_U64, KUMIKI_ADD), "root");
    MISUSE(kumiki_group_start_reduce(group, ranks, &number, 1, KUMIKI_U64, KUMIKI_ADD, &request), "root");
    MISUSE(kumiki_group_start_broadcast(group, ranks, &number, 8, &request), "root");
    MISUSE(kumiki_group_gather(group, ranks, &number, 8, numbers_), "root");
    MISUSE(kumiki_group_gatherv(group, ranks, &number, 8, huge, numbers_), "root");
    MISUSE(kumiki_group_scatter(group, ranks, &number, numbers_, 8), "root");
    MISUSE(kumiki_group_scatterv(group, ranks, &number, huge, numbers_, 8), "root");
    MISUSE(kumiki_group_allgather(group, numbers_, 8, numbers_), "overlap");
    MISUSE(kumiki_group_alltoall(group, numbers_, numbers_, 8), "overlap");
    MISUSE(kumiki_group_alltoall(group, KUMIKI_IN_PLACE, numbers_, 8), "KUMIKI_IN_PLACE");
    MISUSE(kumiki_group_broadcast(group, 0, KUMIKI_IN_PLACE, 8), "KUMIKI_IN_PLACE");
    MISUSE(kumiki_group_start_allgather(group, KUMIKI_IN_PLACE, 8, numbers_, &request), "KUMIKI_IN_PLACE");
    MISUSE(kumiki_group_allgatherv(group, &number, 8, NULL, numbers_), "counts");
    MISUSE(kumiki_group_alltoallv(group, &number, huge, numbers_, huge), "data");
    MISUSE(kumiki_group_reduce_scatter(group, numbers_, huge, KUMIKI_U64, KUMIKI_ADD), "counts");
    MISUSE(kumiki_group_split(group, (int64_t)1 << 40, 0, &none), "colour");
    MISUSE(kumiki_group_subset(group, twice, 2, &none), "members");
    MISUSE(kumiki_group_subset(group, NULL, 2, &none), "members");
    MISUSE(kumiki_group_subset(group, twice, 0, &none), "members");
    MISUSE(kumiki_group_split(group, 0, 0, NULL), "group");
    CHECK(kumiki_group_rank(NULL) == -1 && kumiki_group_world_rank(group, ranks) == -1);
    CHECK(request == NULL && none == NULL && number == 1);
    /* The group is whole all the same. */
    OK(kumiki_group_barrier(group));
}

int main(void)
{
    uint64_t numbers_[2] = {0, 0};
    OK(kumiki_init(&world));
    OK(kumiki_group_create(world, NULL, &group));
    me = (uint32_t)kumiki_group_rank(group);
    ranks = (uint32_t)kumiki_group_ranks(group);
    CHECK(me == kumiki_rank(world) && ranks == kumiki_ranks(world));
    numbers();
    own_operations();
    moves(3);
    moves(LONG);
    started(3);
    started(LONG);
    parts();
    misuse();
    OK(kumiki_group_free(group));
    /* Members that do different things break their group, for all: and another one is made. */
    OK(kumiki_group_create(world, NULL, &group));
    if (ranks > 1) {
        /* The root may be through before the others find out. */
        CHECK(kumiki_group_broadcast(group, 0, numbers_, me == 0 ? 8 : 16) != KUMIKI_SUCCESS || me == 0);
        CHECK(kumiki_group_barrier(group) != KUMIKI_SUCCESS);
        CHECK(kumiki_group_free(group) != KUMIKI_SUCCESS);
        MISUSE(kumiki_group_barrier(group), "no such group");
        OK(kumiki_group_create(world, NULL, &group));
    }
    OK(kumiki_group_barrier(group));
    OK(kumiki_sync(world));
    /* What is not freed ends with the world. */
    OK(kumiki_finalize(world));
    MISUSE(kumiki_group_barrier(group), "no such group");
    return 0;
}
