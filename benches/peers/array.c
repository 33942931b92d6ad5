/* What a programmer writes by hand with MPI instead of distributed arrays, measured on request: see ask.h for how it is asked.
 *
 * Metrics:
 *   array.planes.SIDE array.columns.SIDE     us per exchange of the ghost cells, one deep, of a cube of doubles that is cut in its first, or in its last dimension
 *   array.cyclic.SIDE                        us in which a square matrix of doubles goes from blocks of rows to rows dealt out in turn
 *   array.transpose.SIDE                     us per transposition of a square matrix of doubles that is cut into blocks of rows
 *   array.sum.COUNT                          us per sum over all ranks of so many doubles
 *   array.himeno.S array.himeno.M            us per iteration of the Himeno benchmark (128 x 64 x 64 and 256 x 128 x 128), cut in its first dimension
 *   array.cg.S array.cg.W array.cg.A         ms of the iterations of NPB CG, rows in blocks
 *   array.ep.S array.ep.W array.ep.A         ms of NPB EP
 * Exchanges use derived types; redistributions pack by hand and call MPI_Alltoallv. Results are checked: a wrong one is an error.
 * It is compiled with -O3.
 */
#ifndef ASK_H
#include "ask.h"
#endif
#include <math.h>

static void *zeroed(long count, size_t size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) die("out of memory");
    return memory;
}

/* The rows of a rank of `count` that are cut into blocks, as evenly as with a ceiling. */
static long first_of(long count, int who)
{
    long block = (count + ranks - 1) / ranks, first = block * who;
    return first < count ? first : count;
}

static long share_of(long count, int who)
{
    return first_of(count, who + 1) - first_of(count, who);
}

/* What is being measured: `work` does it n times. */
struct subject {
    long side;
    double *from, *to;
    long wrong;
    void (*work)(struct subject *, long n);
    MPI_Datatype faces[4];
    int beside[2];
};

/* Samples of one run each, or of as many as fill a sample. */
static void measure(const char *metric, const char *unit, double scale, long reps, struct subject *s)
{
    long n = 1;
    double best = SAMPLE_SECONDS, *samples = zeroed(reps, sizeof *samples);
    for (long i = -1; i < reps;) {
        MPI_Barrier(everybody);
        double start = now();
        s->work(s, n);
        double t = now() - start;
        MPI_Bcast(&t, 1, MPI_DOUBLE, 0, everybody); /* rank 0's clock decides for all */
        if (too_few(&n, &best, t / (double)n)) continue;
        if (i >= 0) samples[i] = t / (double)n * scale;
        i++;
    }
    long wrong = 0;
    MPI_Allreduce(&s->wrong, &wrong, 1, MPI_LONG, MPI_SUM, everybody);
    if (wrong) answer_error(metric, "a result was wrong");
    else answer(metric, unit, 0, samples, reps);
    free(samples);
}

/* ---- ghost cells of a cube ---- */

static void exchange_faces(struct subject *s, long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Request requests[4];
        MPI_Irecv(s->from, 1, s->faces[0], s->beside[0], 0, everybody, &requests[0]);
        MPI_Irecv(s->from, 1, s->faces[3], s->beside[1], 1, everybody, &requests[1]);
        MPI_Isend(s->from, 1, s->faces[1], s->beside[0], 1, everybody, &requests[2]);
        MPI_Isend(s->from, 1, s->faces[2], s->beside[1], 0, everybody, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
}

static void measure_faces(const char *metric, long side, int cut, long reps)
{
    struct subject s = {.side = side, .work = exchange_faces};
    int sizes[3], parts[3], starts[3];
    long cells = 1, own = share_of(side, rank), at[4] = {0, 1, own, own + 1};
    for (int d = 0; d < 3; d++) sizes[d] = (int)(d == cut ? own : side) + 2, cells *= sizes[d];
    for (int face = 0; face < 4; face++) {
        for (int d = 0; d < 3; d++) parts[d] = d == cut ? 1 : (int)side, starts[d] = d == cut ? (int)at[face] : 1;
        MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &s.faces[face]);
        MPI_Type_commit(&s.faces[face]);
    }
    s.beside[0] = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    s.beside[1] = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    s.from = zeroed(cells, sizeof *s.from);
    for (long i = 0; i < cells; i++) s.from[i] = rank + 1;
    exchange_faces(&s, 1);
    long step = cut == 0 ? (long)sizes[1] * sizes[2] : 1, middle = (cut == 0 ? 0 : (long)sizes[1] * sizes[2]) + sizes[2] + (cut == 0 ? 1 : 0);
    s.wrong |= s.from[middle] != (rank > 0 ? rank : 1);
    s.wrong |= s.from[middle + step * (own + 1)] != (rank + 1 < ranks ? rank + 2 : ranks);
    measure(metric, "us", 1e6, reps, &s);
    for (int face = 0; face < 4; face++) MPI_Type_free(&s.faces[face]);
    free(s.from);
}

/* ---- redistributions of a matrix ---- */

static double *parcels[2];
static int *counts[2], *starts[2];

/* Rows r, r + ranks, .. of all belong to rank r. */
static void to_cyclic(struct subject *s, long n)
{
    long side = s->side, first = first_of(side, rank), own = share_of(side, rank);
    for (long i = 0; i < n; i++) {
        long at = 0;
        for (int to = 0; to < ranks; to++) {
            starts[0][to] = (int)at;
            for (long row = first + ((to - first) % ranks + ranks) % ranks; row < first + own; row += ranks, at += side)
                memcpy(parcels[0] + at, s->from + (row - first) * side, (size_t)side * sizeof(double));
            counts[0][to] = (int)at - starts[0][to];
        }
        at = 0;
        for (int from = 0; from < ranks; from++) {
            long low = first_of(side, from), high = low + share_of(side, from);
            long before = low > rank ? (low - rank + ranks - 1) / ranks : 0, until = high > rank ? (high - rank + ranks - 1) / ranks : 0;
            starts[1][from] = (int)at;
            counts[1][from] = (int)((until - before) * side);
            at += counts[1][from];
        }
        /* Rows of a rank come in order, and so do ranks: they arrive where they belong. */
        MPI_Alltoallv(parcels[0], counts[0], starts[0], MPI_DOUBLE, s->to, counts[1], starts[1], MPI_DOUBLE, everybody);
    }
    for (long row = rank, at = 0; row < side; row += ranks, at++) s->wrong |= s->to[at * side + side - 1] != (double)(row * side + side - 1);
}

static void transpose(struct subject *s, long n)
{
    long side = s->side, own = share_of(side, rank);
    for (long i = 0; i < n; i++) {
        long at = 0;
        for (int to = 0; to < ranks; to++) {
            long low = first_of(side, to), wide = share_of(side, to);
            starts[0][to] = (int)at;
            for (long row = 0; row < own; row++, at += wide) memcpy(parcels[0] + at, s->from + row * side + low, (size_t)wide * sizeof(double));
            counts[0][to] = (int)(own * wide);
        }
        at = 0;
        for (int from = 0; from < ranks; from++) starts[1][from] = (int)at, counts[1][from] = (int)(own * share_of(side, from)), at += counts[1][from];
        MPI_Alltoallv(parcels[0], counts[0], starts[0], MPI_DOUBLE, parcels[1], counts[1], starts[1], MPI_DOUBLE, everybody);
        for (int from = 0; from < ranks; from++) {
            long low = first_of(side, from), high = share_of(side, from);
            const double *piece = parcels[1] + starts[1][from];
            /* In tiles, so that what is written stays in the cache. */
            for (long r0 = 0; r0 < high; r0 += 16)
                for (long c0 = 0; c0 < own; c0 += 16)
                    for (long c = c0; c < own && c < c0 + 16; c++)
                        for (long r = r0; r < high && r < r0 + 16; r++) s->to[c * side + low + r] = piece[r * own + c];
        }
    }
    for (long row = 0; row < own; row++) s->wrong |= s->to[row * side + side - 1] != (double)((side - 1) * side + first_of(side, rank) + row);
}

static void measure_matrix(const char *metric, long side, long reps, void (*work)(struct subject *, long))
{
    struct subject s = {.side = side, .work = work};
    long most = ((side + ranks - 1) / ranks + 1) * side, first = first_of(side, rank), own = share_of(side, rank);
    s.from = zeroed(most, sizeof(double)), s.to = zeroed(most, sizeof(double));
    for (int way = 0; way < 2; way++) {
        parcels[way] = zeroed(most, sizeof(double));
        counts[way] = zeroed(ranks, sizeof(int)), starts[way] = zeroed(ranks, sizeof(int));
    }
    for (long i = 0; i < own * side; i++) s.from[i] = (double)(first * side + i);
    measure(metric, "us", 1e6, reps, &s);
    for (int way = 0; way < 2; way++) free(parcels[way]), free(counts[way]), free(starts[way]);
    free(s.from), free(s.to);
}

static void sums(struct subject *s, long n)
{
    for (long i = 0; i < n; i++) {
        for (long at = 0; at < s->side; at++) s->from[at] = rank + 1;
        MPI_Allreduce(MPI_IN_PLACE, s->from, (int)s->side, MPI_DOUBLE, MPI_SUM, everybody);
    }
    s->wrong |= s->from[s->side - 1] != ranks * (ranks + 1) / 2;
}

static void measure_sum(const char *metric, long count, long reps)
{
    struct subject s = {.side = count, .work = sums, .from = zeroed(count, sizeof(double))};
    measure(metric, "us", 1e6, reps, &s);
    free(s.from);
}

/* ---- the Himeno benchmark: Jacobi's method for Poisson's equation, 19 points ---- */

static struct {
    long own, rows, columns, cells; /* own: cells of this rank in the first dimension */
    float *p, *next, *bound, *source, *a[4], *b[3], *c[3];
    double gosa;
} himeno;

static void himeno_step(void)
{
    long row = himeno.columns, plane = himeno.rows * row, last = himeno.own;
    float *p = himeno.p, *next = himeno.next;
    float *const *a = himeno.a, *const *b = himeno.b, *const *c = himeno.c;
    long low = rank == 0 ? 2 : 1, high = rank == ranks - 1 ? last - 1 : last;
    double gosa = 0;
    for (long i = low; i <= high; i++)
        for (long j = 1; j < himeno.rows - 1; j++)
            for (long k = 1; k < himeno.columns - 1; k++) {
                long x = i * plane + j * row + k;
                float s0 = a[0][x] * p[x + plane] + a[1][x] * p[x + row] + a[2][x] * p[x + 1]
                         + b[0][x] * (p[x + plane + row] - p[x + plane - row] - p[x - plane + row] + p[x - plane - row])
                         + b[1][x] * (p[x + row + 1] - p[x - row + 1] - p[x + row - 1] + p[x - row - 1])
                         + b[2][x] * (p[x + plane + 1] - p[x - plane + 1] - p[x + plane - 1] + p[x - plane - 1])
                         + c[0][x] * p[x - plane] + c[1][x] * p[x - row] + c[2][x] * p[x - 1] + himeno.source[x];
                float ss = (s0 * a[3][x] - p[x]) * himeno.bound[x];
                gosa += ss * ss;
                next[x] = p[x] + 0.8f * ss;
            }
    for (long i = low; i <= high; i++)
        for (long j = 1; j < himeno.rows - 1; j++)
            memcpy(p + i * plane + j * row + 1, next + i * plane + j * row + 1, (size_t)(himeno.columns - 2) * sizeof(float));
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];
    MPI_Irecv(p, (int)plane, MPI_FLOAT, below, 0, everybody, &requests[0]);
    MPI_Irecv(p + (last + 1) * plane, (int)plane, MPI_FLOAT, above, 1, everybody, &requests[1]);
    MPI_Isend(p + plane, (int)plane, MPI_FLOAT, below, 1, everybody, &requests[2]);
    MPI_Isend(p + last * plane, (int)plane, MPI_FLOAT, above, 0, everybody, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &gosa, 1, MPI_DOUBLE, MPI_SUM, everybody);
    himeno.gosa = gosa;
}

static void himeno_steps(struct subject *s, long n)
{
    for (long i = 0; i < n; i++) himeno_step();
    s->wrong |= !(himeno.gosa > 0 && himeno.gosa < 1e-1);
}

static float *field(float value)
{
    float *cells = zeroed(himeno.cells, sizeof *cells);
    for (long x = 0; x < himeno.cells; x++) cells[x] = value;
    return cells;
}

static void measure_himeno(const char *metric, long planes, long rows, long columns, long reps)
{
    struct subject s = {.work = himeno_steps};
    long first = first_of(planes, rank);
    himeno.own = share_of(planes, rank), himeno.rows = rows, himeno.columns = columns;
    himeno.cells = (himeno.own + 2) * rows * columns;
    himeno.p = field(0), himeno.next = field(0), himeno.bound = field(1), himeno.source = field(0);
    for (int i = 0; i < 4; i++) himeno.a[i] = field(i == 3 ? 1.0f / 6.0f : 1);
    for (int i = 0; i < 3; i++) himeno.b[i] = field(0), himeno.c[i] = field(1);
    for (long i = 0; i < himeno.own + 2; i++)
        for (long x = 0; x < rows * columns; x++) {
            float g = (float)(first + i - 1);
            himeno.p[i * rows * columns + x] = g * g / (float)((planes - 1) * (planes - 1));
        }
    measure(metric, "us", 1e6, reps, &s);
    free(himeno.p), free(himeno.next), free(himeno.bound), free(himeno.source);
    for (int i = 0; i < 4; i++) free(himeno.a[i]);
    for (int i = 0; i < 3; i++) free(himeno.b[i]), free(himeno.c[i]);
}

/* ---- random numbers of the NAS benchmarks: x = 5^13 x modulo 2^46 ---- */

static const uint64_t NAS_MASK = (1ULL << 46) - 1, NAS_FACTOR = 1220703125;

static double nas_next(uint64_t *x)
{
    *x = *x * NAS_FACTOR & NAS_MASK;
    return (double)*x * 0x1p-46;
}

static uint64_t nas_jump(uint64_t x, uint64_t steps)
{
    for (uint64_t factor = NAS_FACTOR; steps; steps >>= 1, factor = factor * factor & NAS_MASK)
        if (steps & 1) x = x * factor & NAS_MASK;
    return x;
}

/* ---- CG ---- */

struct cg_class { char name; long rows; int nonzeros; double shift, zeta; };
static const struct cg_class CG_CLASSES[] = {
    {'S', 1400, 7, 10, 8.5971775078648}, {'W', 7000, 8, 12, 10.362595087124}, {'A', 14000, 11, 20, 17.130235054029}};
enum { CG_STEPS = 15, CG_INNER = 25 };

static struct {
    const struct cg_class *class;
    long first, own;
    long *row; /* where each own row begins */
    int *column, *counts, *starts;
    double *value, *x, *z, *p, *q, *r, *whole;
} cg;

struct entry { int column; double value; };

static int by_column(const void *one, const void *other)
{
    return ((const struct entry *)one)->column - ((const struct entry *)other)->column;
}

/* The matrix is the sum of weighted outer products of sparse random vectors: the own rows of it. */
static void cg_matrix(void)
{
    long n = cg.class->rows, wide = 1, most = cg.class->nonzeros + 1;
    while (wide < n) wide *= 2;
    int *columns = zeroed(n * most, sizeof *columns), *lengths = zeroed(n, sizeof *lengths);
    double *values = zeroed(n * most, sizeof *values);
    uint64_t seed = 314159265;
    nas_next(&seed);
    for (long i = 0; i < n; i++) {
        int *at = columns + i * most, count = 0, has_own = 0;
        double *v = values + i * most;
        while (count < cg.class->nonzeros) {
            double value = nas_next(&seed);
            long place = (long)((double)wide * nas_next(&seed));
            int known = place >= n;
            for (int k = 0; k < count && !known; k++) known = at[k] == place;
            if (!known) at[count] = (int)place, v[count++] = value;
        }
        for (int k = 0; k < count; k++)
            if (at[k] == i) v[k] = 0.5, has_own = 1;
        if (!has_own) at[count] = (int)i, v[count++] = 0.5;
        lengths[i] = count;
    }
    long *room = zeroed(cg.own + 1, sizeof *room);
    for (long i = 0; i < n; i++)
        for (int k = 0; k < lengths[i]; k++) {
            long row = columns[i * most + k] - cg.first;
            if (row >= 0 && row < cg.own) room[row + 1] += lengths[i];
        }
    for (long row = 0; row < cg.own; row++) room[row + 1] += room[row];
    struct entry *entries = zeroed(room[cg.own], sizeof *entries);
    long *filled = zeroed(cg.own, sizeof *filled);
    double size = 1, ratio = pow(0.1, 1.0 / (double)n);
    for (long i = 0; i < n; i++, size *= ratio)
        for (int k = 0; k < lengths[i]; k++) {
            long row = columns[i * most + k] - cg.first;
            if (row < 0 || row >= cg.own) continue;
            for (int l = 0; l < lengths[i]; l++) {
                int column = columns[i * most + l];
                double value = values[i * most + l] * (size * values[i * most + k]);
                if (column == columns[i * most + k] && column == i) value += 0.1 - cg.class->shift;
                entries[room[row] + filled[row]++] = (struct entry){column, value};
            }
        }
    cg.row = zeroed(cg.own + 1, sizeof *cg.row);
    cg.column = zeroed(room[cg.own], sizeof *cg.column), cg.value = zeroed(room[cg.own], sizeof *cg.value);
    long at = 0;
    for (long row = 0; row < cg.own; row++) {
        cg.row[row] = at;
        qsort(entries + room[row], (size_t)filled[row], sizeof *entries, by_column);
        for (long k = room[row]; k < room[row] + filled[row]; k++) {
            if (at > cg.row[row] && cg.column[at - 1] == entries[k].column) cg.value[at - 1] += entries[k].value;
            else cg.column[at] = entries[k].column, cg.value[at++] = entries[k].value;
        }
    }
    cg.row[cg.own] = at;
    free(entries), free(filled), free(room), free(values), free(columns), free(lengths);
}

static void cg_product(const double *from, double *to)
{
    MPI_Allgatherv(from, (int)cg.own, MPI_DOUBLE, cg.whole, cg.counts, cg.starts, MPI_DOUBLE, everybody);
    for (long row = 0; row < cg.own; row++) {
        double sum = 0;
        for (long k = cg.row[row]; k < cg.row[row + 1]; k++) sum += cg.value[k] * cg.whole[cg.column[k]];
        to[row] = sum;
    }
}

static double cg_dot(const double *one, const double *other)
{
    double sum = 0;
    for (long i = 0; i < cg.own; i++) sum += one[i] * other[i];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, everybody);
    return sum;
}

static void cg_solve(void)
{
    for (long i = 0; i < cg.own; i++) cg.z[i] = 0, cg.p[i] = cg.r[i] = cg.x[i];
    double rho = cg_dot(cg.r, cg.r);
    for (int step = 0; step < CG_INNER; step++) {
        cg_product(cg.p, cg.q);
        double alpha = rho / cg_dot(cg.p, cg.q), before = rho;
        for (long i = 0; i < cg.own; i++) cg.z[i] += alpha * cg.p[i], cg.r[i] -= alpha * cg.q[i];
        rho = cg_dot(cg.r, cg.r);
        for (long i = 0; i < cg.own; i++) cg.p[i] = cg.r[i] + rho / before * cg.p[i];
    }
}

static void cg_runs(struct subject *s, long n)
{
    for (long run = 0; run < n; run++) {
        double zeta = 0;
        for (long i = 0; i < cg.own; i++) cg.x[i] = 1;
        for (int step = 0; step < CG_STEPS; step++) {
            cg_solve();
            double dot = cg_dot(cg.x, cg.z), scale = 1 / sqrt(cg_dot(cg.z, cg.z));
            zeta = cg.class->shift + 1 / dot;
            for (long i = 0; i < cg.own; i++) cg.x[i] = scale * cg.z[i];
        }
        s->wrong |= !(fabs(zeta - cg.class->zeta) <= 1e-10 * cg.class->zeta);
    }
}

static void measure_cg(const char *metric, const struct cg_class *class, long reps)
{
    struct subject s = {.work = cg_runs};
    cg.class = class, cg.first = first_of(class->rows, rank), cg.own = share_of(class->rows, rank);
    double **vectors[] = {&cg.x, &cg.z, &cg.p, &cg.q, &cg.r};
    for (int i = 0; i < 5; i++) *vectors[i] = zeroed(cg.own, sizeof(double));
    cg.whole = zeroed(class->rows, sizeof(double));
    cg.counts = zeroed(ranks, sizeof(int)), cg.starts = zeroed(ranks, sizeof(int));
    for (int i = 0; i < ranks; i++) cg.counts[i] = (int)share_of(class->rows, i), cg.starts[i] = (int)first_of(class->rows, i);
    cg_matrix();
    measure(metric, "ms", 1e3, reps, &s);
    for (int i = 0; i < 5; i++) free(*vectors[i]);
    free(cg.whole), free(cg.counts), free(cg.starts), free(cg.row), free(cg.column), free(cg.value);
}

/* ---- EP ---- */

struct ep_class { char name; int bits; double x, y; };
static const struct ep_class EP_CLASSES[] = {{'S', 24, -3.247834652034740e3, -6.958407078382297e3},
                                             {'W', 25, -2.863319731645753e3, -6.320053679109499e3},
                                             {'A', 28, -4.295875165629892e3, -1.580732573678431e4}};
enum { EP_BATCH = 16 };
static const struct ep_class *ep;

static void ep_runs(struct subject *s, long n)
{
    static double numbers[2 << EP_BATCH];
    long batches = 1L << (ep->bits - EP_BATCH);
    for (long run = 0; run < n; run++) {
        double sums[12] = {0}; /* x, y, and how many pairs fell into each ring */
        for (long batch = first_of(batches, rank); batch < first_of(batches, rank + 1); batch++) {
            uint64_t seed = nas_jump(271828183, (uint64_t)batch * (2 << EP_BATCH));
            for (long i = 0; i < 2 << EP_BATCH; i++) numbers[i] = nas_next(&seed);
            for (long i = 0; i < 1 << EP_BATCH; i++) {
                double x = 2 * numbers[2 * i] - 1, y = 2 * numbers[2 * i + 1] - 1, t = x * x + y * y;
                if (t > 1) continue;
                double f = sqrt(-2 * log(t) / t), gx = x * f, gy = y * f;
                sums[0] += gx, sums[1] += gy;
                sums[2 + (int)fmax(fabs(gx), fabs(gy))]++;
            }
        }
        MPI_Allreduce(MPI_IN_PLACE, sums, 12, MPI_DOUBLE, MPI_SUM, everybody);
        s->wrong |= !(fabs(sums[0] / ep->x - 1) < 1e-8 && fabs(sums[1] / ep->y - 1) < 1e-8);
    }
}

/* ---- */

static int measure_array(const char *name, const char *metric, long reps)
{
    long side = 0;
    char class = 0, rest = 0;
    if (sscanf(name, "planes.%ld%c", &side, &rest) == 1 && side > 1) measure_faces(metric, side, 0, reps);
    else if (sscanf(name, "columns.%ld%c", &side, &rest) == 1 && side > 1) measure_faces(metric, side, 2, reps);
    else if (sscanf(name, "cyclic.%ld%c", &side, &rest) == 1 && side > 0) measure_matrix(metric, side, reps, to_cyclic);
    else if (sscanf(name, "transpose.%ld%c", &side, &rest) == 1 && side > 0) measure_matrix(metric, side, reps, transpose);
    else if (sscanf(name, "sum.%ld%c", &side, &rest) == 1 && side > 0) measure_sum(metric, side, reps);
    else if (strcmp(name, "himeno.S") == 0) measure_himeno(metric, 128, 64, 64, reps);
    else if (strcmp(name, "himeno.M") == 0) measure_himeno(metric, 256, 128, 128, reps);
    else if (sscanf(name, "cg.%c%c", &class, &rest) == 1) {
        for (size_t i = 0; i < sizeof CG_CLASSES / sizeof *CG_CLASSES; i++)
            if (CG_CLASSES[i].name == class) return measure_cg(metric, &CG_CLASSES[i], reps), 1;
        return 0;
    } else if (sscanf(name, "ep.%c%c", &class, &rest) == 1) {
        struct subject s = {.work = ep_runs};
        for (size_t i = 0; i < sizeof EP_CLASSES / sizeof *EP_CLASSES; i++)
            if (EP_CLASSES[i].name == class) return ep = &EP_CLASSES[i], measure(metric, "ms", 1e3, reps, &s), 1;
        return 0;
    } else return 0;
    return 1;
}

int main(int argc, char **argv)
{
    char line[COMMAND_BYTES], metric[COMMAND_BYTES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(everybody, &rank);
    MPI_Comm_size(everybody, &ranks);
    connect_ranks();
    if (rank == 0) greet();
    while (next_line(line)) {
        long reps = 0;
        int words = sscanf(line, "%127s %ld", metric, &reps);
        if (words >= 1 && strcmp(metric, "quit") == 0) break;
        int known = words == 2 && reps >= 1 && reps <= MAX_REPS && strncmp(metric, "array.", 6) == 0 && measure_array(metric + 6, metric, reps);
        if (!known) answer_error(words >= 1 ? metric : "", "not `METRIC REPS` with a metric known here");
    }
    return MPI_Finalize() != MPI_SUCCESS;
}
