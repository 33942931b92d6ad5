/* Distributed arrays of XcalableMP C, measured on request as benches/peers/array.c measures what is written by hand with MPI: `kumiki xmpcc -O3 array.c -lm`, then
 * `METRIC REPS` lines on standard input, each answered with one line of JSON, until `quit`.
 *
 *   array.planes.SIDE array.columns.SIDE array.cyclic.SIDE array.transpose.SIDE array.sum.1 array.sum.8192
 *   array.himeno.S array.himeno.M array.cg.S array.cg.W array.cg.A array.ep.S array.ep.W array.ep.A
 *                                    as there
 *   array.triad.COUNT array.laplace.SIDE array.stencil.SIDE
 *                                    ns per element of a sweep over distributed arrays (so many elements, or so many a dimension, on each node)
 *   serial.triad.COUNT ..            the same over plain arrays of as many elements as a node has
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmp.h>

#pragma xmp nodes p[*]

enum { COMMAND_BYTES = 128, MAX_REPS = 100000 };
static const double SAMPLE_SECONDS = 5e-3;

/* Where samples go, and whether one more run is wanted: n runs at a time. */
struct meter { long n, at, reps, wrong; double best, start, samples[MAX_REPS]; } meter;

static void begin(long reps)
{
    meter.n = 1, meter.at = -1, meter.reps = reps, meter.wrong = 0, meter.best = SAMPLE_SECONDS;
}

static void start(void)
{
#pragma xmp barrier
    meter.start = xmp_wtime();
}

/* Whether to go on, after n runs. */
static int stop(double scale)
{
    double t = (xmp_wtime() - meter.start) / (double)meter.n;
#pragma xmp bcast (t)
    if (t < meter.best) meter.best = t;
    long wanted = (long)(SAMPLE_SECONDS / meter.best);
    if (meter.n < wanted / 2) {
        meter.n = 4 * meter.n < wanted ? 4 * meter.n : wanted;
        return 1;
    }
    if (meter.at >= 0) meter.samples[meter.at] = t * scale;
    return ++meter.at < meter.reps;
}

static void answer(const char *metric, const char *unit)
{
    long wrong = meter.wrong;
#pragma xmp reduction(+:wrong)
    if (xmpc_all_node_num() != 0) return;
    if (wrong) printf("{\"metric\":\"%s\",\"error\":\"a result was wrong\"}\n", metric);
    else {
        printf("{\"metric\":\"%s\",\"unit\":\"%s\",\"samples\":[", metric, unit);
        for (long i = 0; i < meter.reps; i++) printf("%s%.3f", i ? "," : "", meter.samples[i]);
        printf("]}\n");
    }
    fflush(stdout);
}

/* ---- sweeps ---- */

static void triad(long count)
{
    long n = count * xmp_all_num_nodes();
#pragma xmp template t[n]
#pragma xmp distribute t[block] onto p
    double a[n], b[n], c[n];
#pragma xmp align [i] with t[i] :: a, b, c
    long i, run;
#pragma xmp loop on t[i]
    for (i = 0; i < n; i++) a[i] = 0, b[i] = 1, c[i] = 2;
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp loop on t[i]
            for (i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
        }
    } while (stop(1e9 / (double)count));
#pragma xmp loop on t[i]
    for (i = 0; i < n; i++) if (a[i] != 7) meter.wrong = 1;
}

static void serial_triad(long n)
{
    double *restrict a = calloc(n, sizeof *a), *restrict b = calloc(n, sizeof *b), *restrict c = calloc(n, sizeof *c);
    for (long i = 0; i < n; i++) b[i] = 1, c[i] = 2;
    do {
        start();
        for (long run = 0; run < meter.n; run++)
            for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
    } while (stop(1e9 / (double)n));
    meter.wrong |= a[n - 1] != 7;
    free(a), free(b), free(c);
}

static void laplace(long side)
{
    long n = side * xmp_all_num_nodes();
#pragma xmp template t[n][side]
#pragma xmp distribute t[block][*] onto p
    double u[n][side], v[n][side];
#pragma xmp align [i][j] with t[i][j] :: u, v
#pragma xmp shadow u[1][0]
    long i, j, run;
#pragma xmp loop (i,j) on t[i][j]
    for (i = 0; i < n; i++)
        for (j = 0; j < side; j++) u[i][j] = (double)i, v[i][j] = 0;
#pragma xmp reflect (u)
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp loop (i,j) on t[i][j]
            for (i = 1; i < n - 1; i++)
                for (j = 1; j < side - 1; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]) * 0.25;
        }
    } while (stop(1e9 / (double)(side * side)));
#pragma xmp loop (i,j) on t[i][j]
    for (i = 1; i < n - 1; i++)
        for (j = 1; j < side - 1; j++) if (v[i][j] != (double)i) meter.wrong = 1;
}

static void serial_laplace(long side)
{
    double(*restrict u)[side] = calloc(side + 2, side * sizeof(double)), (*restrict v)[side] = calloc(side + 2, side * sizeof(double));
    for (long i = 0; i < side + 2; i++)
        for (long j = 0; j < side; j++) u[i][j] = (double)i;
    do {
        start();
        for (long run = 0; run < meter.n; run++)
            for (long i = 1; i < side + 1; i++)
                for (long j = 1; j < side - 1; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]) * 0.25;
    } while (stop(1e9 / (double)(side * side)));
    meter.wrong |= v[side][side / 2] != (double)side;
    free(u), free(v);
}

static void stencil(long side)
{
    long n = side * xmp_all_num_nodes();
#pragma xmp template t[n][side][side]
#pragma xmp distribute t[block][*][*] onto p
    double u[n][side][side], v[n][side][side];
#pragma xmp align [i][j][k] with t[i][j][k] :: u, v
#pragma xmp shadow u[1][0][0]
    long i, j, k, run;
#pragma xmp loop (i,j,k) on t[i][j][k]
    for (i = 0; i < n; i++)
        for (j = 0; j < side; j++)
            for (k = 0; k < side; k++) u[i][j][k] = (double)i, v[i][j][k] = 0;
#pragma xmp reflect (u)
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp loop (i,j,k) on t[i][j][k]
            for (i = 1; i < n - 1; i++)
                for (j = 1; j < side - 1; j++)
                    for (k = 1; k < side - 1; k++)
                        v[i][j][k] = 0.4 * u[i][j][k]
                                   + 0.1 * (u[i - 1][j][k] + u[i + 1][j][k] + u[i][j - 1][k] + u[i][j + 1][k] + u[i][j][k - 1] + u[i][j][k + 1]);
        }
    } while (stop(1e9 / (double)(side * side * side)));
#pragma xmp loop (i,j,k) on t[i][j][k]
    for (i = 1; i < n - 1; i++)
        for (j = 1; j < side - 1; j++)
            for (k = 1; k < side - 1; k++) if (fabs(v[i][j][k] - (double)i) > 1e-9 * (double)n) meter.wrong = 1;
}

static void serial_stencil(long side)
{
    double(*restrict u)[side][side] = calloc(side + 2, side * side * sizeof(double));
    double(*restrict v)[side][side] = calloc(side + 2, side * side * sizeof(double));
    for (long i = 0; i < side + 2; i++)
        for (long j = 0; j < side; j++)
            for (long k = 0; k < side; k++) u[i][j][k] = (double)i;
    do {
        start();
        for (long run = 0; run < meter.n; run++)
            for (long i = 1; i < side + 1; i++)
                for (long j = 1; j < side - 1; j++)
                    for (long k = 1; k < side - 1; k++)
                        v[i][j][k] = 0.4 * u[i][j][k]
                                   + 0.1 * (u[i - 1][j][k] + u[i + 1][j][k] + u[i][j - 1][k] + u[i][j + 1][k] + u[i][j][k - 1] + u[i][j][k + 1]);
    } while (stop(1e9 / (double)(side * side * side)));
    meter.wrong |= fabs(v[side][side / 2][side / 2] - (double)side) > 1e-9 * (double)side;
    free(u), free(v);
}

/* ---- communication ---- */

static void planes(long side)
{
#pragma xmp template t[side][side][side]
#pragma xmp distribute t[block][*][*] onto p
    double u[side][side][side];
#pragma xmp align u[i][j][k] with t[i][j][k]
#pragma xmp shadow u[1][1][1]
    long i, j, k, run;
#pragma xmp loop (i,j,k) on t[i][j][k]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++)
            for (k = 0; k < side; k++) u[i][j][k] = (double)i;
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp reflect (u) orthogonal
        }
    } while (stop(1e6));
#pragma xmp loop (i) on t[i][*][*]
    for (i = 1; i < side - 1; i++) if (u[i - 1][0][0] != (double)(i - 1) || u[i + 1][side - 1][side - 1] != (double)(i + 1)) meter.wrong = 1;
}

static void columns(long side)
{
#pragma xmp template t[side][side][side]
#pragma xmp distribute t[*][*][block] onto p
    double u[side][side][side];
#pragma xmp align u[i][j][k] with t[i][j][k]
#pragma xmp shadow u[1][1][1]
    long i, j, k, run;
#pragma xmp loop (i,j,k) on t[i][j][k]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++)
            for (k = 0; k < side; k++) u[i][j][k] = (double)k;
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp reflect (u) orthogonal
        }
    } while (stop(1e6));
#pragma xmp loop (k) on t[*][*][k]
    for (k = 1; k < side - 1; k++) if (u[0][0][k - 1] != (double)(k - 1) || u[side - 1][side - 1][k + 1] != (double)(k + 1)) meter.wrong = 1;
}

static void cyclic(long side)
{
#pragma xmp template t[side][side]
#pragma xmp distribute t[block][*] onto p
#pragma xmp template u[side][side]
#pragma xmp distribute u[cyclic][*] onto p
    double a[side][side], b[side][side];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align b[i][j] with u[i][j]
    long i, j, run;
#pragma xmp loop (i,j) on t[i][j]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) a[i][j] = (double)(i * side + j);
    do {
        start();
        for (run = 0; run < meter.n; run++) {
#pragma xmp gmove
            b[:][:] = a[:][:];
        }
    } while (stop(1e6));
#pragma xmp loop (i,j) on u[i][j]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) if (b[i][j] != (double)(i * side + j)) meter.wrong = 1;
}

static void transpose(long side)
{
#pragma xmp template t[side][side]
#pragma xmp distribute t[block][*] onto p
    double a[side][side], b[side][side];
#pragma xmp align a[i][j] with t[i][j]
#pragma xmp align b[i][j] with t[i][j]
    long i, j, run;
#pragma xmp loop (i,j) on t[i][j]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) a[i][j] = (double)(i * side + j);
    do {
        start();
        for (run = 0; run < meter.n; run++) xmp_transpose(xmp_desc_of(b), xmp_desc_of(a), 0);
    } while (stop(1e6));
#pragma xmp loop (i,j) on t[i][j]
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) if (b[i][j] != (double)(j * side + i)) meter.wrong = 1;
}

enum { MANY = 8192 };
static double total[MANY];

static void sum(long count)
{
    int nodes = xmp_all_num_nodes(), me = xmp_all_node_num();
    double one;
    if (count != 1 && count != MANY) exit(1);
    do {
        start();
        for (long run = 0; run < meter.n; run++) {
            if (count == 1) {
                one = me;
#pragma xmp reduction(+:one)
                total[0] = one;
            } else {
                for (long i = 0; i < count; i++) total[i] = me;
#pragma xmp reduction(+:total)
            }
        }
    } while (stop(1e6));
    meter.wrong |= total[0] != nodes * (nodes + 1) / 2;
}

/* ---- the Himeno benchmark ---- */

static void himeno(long planes, long rows, long columns)
{
#pragma xmp template t[planes][rows][columns]
#pragma xmp distribute t[block][*][*] onto p
    float q[planes][rows][columns], next[planes][rows][columns], bound[planes][rows][columns], source[planes][rows][columns];
    float a[4][planes][rows][columns], b[3][planes][rows][columns], c[3][planes][rows][columns];
#pragma xmp align [i][j][k] with t[i][j][k] :: q, next, bound, source
#pragma xmp align [*][i][j][k] with t[i][j][k] :: a, b, c
#pragma xmp shadow q[1][0][0]
    long i, j, k, run;
    double gosa = 0;
#pragma xmp loop (i,j,k) on t[i][j][k]
    for (i = 0; i < planes; i++)
        for (j = 0; j < rows; j++)
            for (k = 0; k < columns; k++) {
                a[0][i][j][k] = a[1][i][j][k] = a[2][i][j][k] = 1, a[3][i][j][k] = 1.0f / 6.0f;
                b[0][i][j][k] = b[1][i][j][k] = b[2][i][j][k] = 0;
                c[0][i][j][k] = c[1][i][j][k] = c[2][i][j][k] = 1;
                q[i][j][k] = (float)(i * i) / (float)((planes - 1) * (planes - 1));
                next[i][j][k] = source[i][j][k] = 0, bound[i][j][k] = 1;
            }
#pragma xmp reflect (q)
    do {
        start();
        for (run = 0; run < meter.n; run++) {
            gosa = 0;
#pragma xmp loop (i,j,k) on t[i][j][k] reduction(+:gosa)
            for (i = 1; i < planes - 1; i++)
                for (j = 1; j < rows - 1; j++)
                    for (k = 1; k < columns - 1; k++) {
                        float s0 = a[0][i][j][k] * q[i + 1][j][k] + a[1][i][j][k] * q[i][j + 1][k] + a[2][i][j][k] * q[i][j][k + 1]
                                 + b[0][i][j][k] * (q[i + 1][j + 1][k] - q[i + 1][j - 1][k] - q[i - 1][j + 1][k] + q[i - 1][j - 1][k])
                                 + b[1][i][j][k] * (q[i][j + 1][k + 1] - q[i][j - 1][k + 1] - q[i][j + 1][k - 1] + q[i][j - 1][k - 1])
                                 + b[2][i][j][k] * (q[i + 1][j][k + 1] - q[i - 1][j][k + 1] - q[i + 1][j][k - 1] + q[i - 1][j][k - 1])
                                 + c[0][i][j][k] * q[i - 1][j][k] + c[1][i][j][k] * q[i][j - 1][k] + c[2][i][j][k] * q[i][j][k - 1] + source[i][j][k];
                        float ss = (s0 * a[3][i][j][k] - q[i][j][k]) * bound[i][j][k];
                        gosa += ss * ss;
                        next[i][j][k] = q[i][j][k] + 0.8f * ss;
                    }
#pragma xmp loop (i,j,k) on t[i][j][k]
            for (i = 1; i < planes - 1; i++)
                for (j = 1; j < rows - 1; j++)
                    for (k = 1; k < columns - 1; k++) q[i][j][k] = next[i][j][k];
#pragma xmp reflect (q)
        }
    } while (stop(1e6));
    meter.wrong |= !(gosa > 0 && gosa < 1e-1);
}

/* ---- random numbers of the NAS benchmarks: x = 5^13 x modulo 2^46 ---- */

static const unsigned long NAS_MASK = (1UL << 46) - 1, NAS_FACTOR = 1220703125;

static double nas_next(unsigned long *x)
{
    *x = *x * NAS_FACTOR & NAS_MASK;
    return (double)*x / 70368744177664.0;
}

static unsigned long nas_jump(unsigned long x, unsigned long steps)
{
    for (unsigned long factor = NAS_FACTOR; steps; steps >>= 1, factor = factor * factor & NAS_MASK)
        if (steps & 1) x = x * factor & NAS_MASK;
    return x;
}

/* ---- CG: vectors are distributed; each node has the rows of the matrix that it owns ---- */

struct entry { int column; double value; };

static int by_column(const void *one, const void *other)
{
    return ((const struct entry *)one)->column - ((const struct entry *)other)->column;
}

/* Rows `first` to `first + own - 1`: where each begins, their columns and values. */
static void cg_matrix(long n, int nonzeros, double shift, long first, long own, long **row, int **column, double **value)
{
    long wide = 1, most = nonzeros + 1;
    while (wide < n) wide *= 2;
    int *columns = calloc(n * most, sizeof *columns), *lengths = calloc(n, sizeof *lengths);
    double *values = calloc(n * most, sizeof *values);
    unsigned long seed = 314159265;
    nas_next(&seed);
    for (long i = 0; i < n; i++) {
        int *at = columns + i * most, count = 0, has_own = 0;
        double *v = values + i * most;
        while (count < nonzeros) {
            double random = nas_next(&seed);
            long place = (long)((double)wide * nas_next(&seed));
            int known = place >= n;
            for (int k = 0; k < count && !known; k++) known = at[k] == place;
            if (!known) at[count] = (int)place, v[count++] = random;
        }
        for (int k = 0; k < count; k++)
            if (at[k] == i) v[k] = 0.5, has_own = 1;
        if (!has_own) at[count] = (int)i, v[count++] = 0.5;
        lengths[i] = count;
    }
    long *room = calloc(own + 1, sizeof *room), *filled = calloc(own + 1, sizeof *filled);
    for (long i = 0; i < n; i++)
        for (int k = 0; k < lengths[i]; k++) {
            long r = columns[i * most + k] - first;
            if (r >= 0 && r < own) room[r + 1] += lengths[i];
        }
    for (long r = 0; r < own; r++) room[r + 1] += room[r];
    struct entry *entries = calloc(room[own] + 1, sizeof *entries);
    double size = 1, ratio = pow(0.1, 1.0 / (double)n);
    for (long i = 0; i < n; i++, size *= ratio)
        for (int k = 0; k < lengths[i]; k++) {
            long r = columns[i * most + k] - first;
            if (r < 0 || r >= own) continue;
            for (int l = 0; l < lengths[i]; l++) {
                struct entry e = {columns[i * most + l], values[i * most + l] * (size * values[i * most + k])};
                if (e.column == columns[i * most + k] && e.column == i) e.value += 0.1 - shift;
                entries[room[r] + filled[r]++] = e;
            }
        }
    *row = calloc(own + 1, sizeof **row), *column = calloc(room[own] + 1, sizeof **column), *value = calloc(room[own] + 1, sizeof **value);
    long at = 0;
    for (long r = 0; r < own; r++) {
        (*row)[r] = at;
        qsort(entries + room[r], (size_t)filled[r], sizeof *entries, by_column);
        for (long k = room[r]; k < room[r] + filled[r]; k++) {
            if (at > (*row)[r] && (*column)[at - 1] == entries[k].column) (*value)[at - 1] += entries[k].value;
            else (*column)[at] = entries[k].column, (*value)[at++] = entries[k].value;
        }
    }
    (*row)[own] = at;
    free(entries), free(filled), free(room), free(values), free(columns), free(lengths);
}

static void cg(long n, int nonzeros, double shift, double wanted)
{
#pragma xmp template t[n]
#pragma xmp distribute t[block] onto p
    double x[n], z[n], d[n], q[n], r[n];
#pragma xmp align [i] with t[i] :: x, z, d, q, r
#pragma xmp shadow d[*]
    long i, run, first = n, own = 0;
    long *row;
    int *column;
    double *value;
#pragma xmp loop on t[i]
    for (i = 0; i < n; i++) {
        if (i < first) first = i;
        own++;
    }
    cg_matrix(n, nonzeros, shift, first, own, &row, &column, &value);
    do {
        start();
        for (run = 0; run < meter.n; run++) {
            double zeta = 0;
#pragma xmp loop on t[i]
            for (i = 0; i < n; i++) x[i] = 1;
            for (int step = 0; step < 15; step++) {
                double rho = 0, dot = 0, norm = 0;
#pragma xmp loop on t[i] reduction(+:rho)
                for (i = 0; i < n; i++) {
                    z[i] = 0;
                    d[i] = r[i] = x[i];
                    rho += x[i] * x[i];
                }
                for (int inner = 0; inner < 25; inner++) {
                    double dq = 0, before = rho;
#pragma xmp reflect (d)
#pragma xmp loop on t[i] reduction(+:dq)
                    for (i = 0; i < n; i++) {
                        double sum = 0;
                        for (long k = row[i - first]; k < row[i - first + 1]; k++) sum += value[k] * d[column[k]];
                        q[i] = sum;
                        dq += d[i] * sum;
                    }
                    double alpha = rho / dq;
                    rho = 0;
#pragma xmp loop on t[i] reduction(+:rho)
                    for (i = 0; i < n; i++) {
                        z[i] += alpha * d[i];
                        r[i] -= alpha * q[i];
                        rho += r[i] * r[i];
                    }
                    double beta = rho / before;
#pragma xmp loop on t[i]
                    for (i = 0; i < n; i++) d[i] = r[i] + beta * d[i];
                }
#pragma xmp loop on t[i] reduction(+:dot, norm)
                for (i = 0; i < n; i++) dot += x[i] * z[i], norm += z[i] * z[i];
                zeta = shift + 1 / dot;
                norm = 1 / sqrt(norm);
#pragma xmp loop on t[i]
                for (i = 0; i < n; i++) x[i] = norm * z[i];
            }
            meter.wrong |= !(fabs(zeta - wanted) <= 1e-10 * wanted);
        }
    } while (stop(1e3));
    free(row), free(column), free(value);
}

/* ---- EP ---- */

enum { EP_BATCH = 16 };

static void ep(int bits, double wanted_x, double wanted_y)
{
    static double numbers[2 << EP_BATCH];
    long batches = 1L << (bits - EP_BATCH);
#pragma xmp template t[batches]
#pragma xmp distribute t[block] onto p
    long batch, run;
    do {
        start();
        for (run = 0; run < meter.n; run++) {
            double x = 0, y = 0, rings[10] = {0};
#pragma xmp loop on t[batch] reduction(+:x, y, rings)
            for (batch = 0; batch < batches; batch++) {
                unsigned long seed = nas_jump(271828183, (unsigned long)batch * (2 << EP_BATCH));
                for (long i = 0; i < 2 << EP_BATCH; i++) numbers[i] = nas_next(&seed);
                for (long i = 0; i < 1 << EP_BATCH; i++) {
                    double u = 2 * numbers[2 * i] - 1, v = 2 * numbers[2 * i + 1] - 1, w = u * u + v * v;
                    if (w > 1) continue;
                    double f = sqrt(-2 * log(w) / w), gu = u * f, gv = v * f;
                    x += gu, y += gv;
                    rings[(int)fmax(fabs(gu), fabs(gv))]++;
                }
            }
            meter.wrong |= !(fabs(x / wanted_x - 1) < 1e-8 && fabs(y / wanted_y - 1) < 1e-8);
        }
    } while (stop(1e3));
}

/* ---- */

static int measure(const char *metric, long reps)
{
    static const struct { const char *name; void (*work)(long); const char *unit; } SUBJECTS[] = {
        {"array.triad", triad, "ns"}, {"array.laplace", laplace, "ns"}, {"array.stencil", stencil, "ns"},
        {"serial.triad", serial_triad, "ns"}, {"serial.laplace", serial_laplace, "ns"}, {"serial.stencil", serial_stencil, "ns"},
        {"array.planes", planes, "us"}, {"array.columns", columns, "us"}, {"array.cyclic", cyclic, "us"},
        {"array.transpose", transpose, "us"}, {"array.sum", sum, "us"}};
    begin(reps);
    for (size_t i = 0; i < sizeof SUBJECTS / sizeof *SUBJECTS; i++) {
        size_t length = strlen(SUBJECTS[i].name);
        long side = 0;
        if (strncmp(metric, SUBJECTS[i].name, length) != 0 || sscanf(metric + length, ".%ld", &side) != 1 || side < 1) continue;
        SUBJECTS[i].work(side);
        answer(metric, SUBJECTS[i].unit);
        return 1;
    }
    if (strcmp(metric, "array.himeno.S") == 0) himeno(128, 64, 64), answer(metric, "us");
    else if (strcmp(metric, "array.himeno.M") == 0) himeno(256, 128, 128), answer(metric, "us");
    else if (strcmp(metric, "array.cg.S") == 0) cg(1400, 7, 10, 8.5971775078648), answer(metric, "ms");
    else if (strcmp(metric, "array.cg.W") == 0) cg(7000, 8, 12, 10.362595087124), answer(metric, "ms");
    else if (strcmp(metric, "array.cg.A") == 0) cg(14000, 11, 20, 17.130235054029), answer(metric, "ms");
    else if (strcmp(metric, "array.ep.S") == 0) ep(24, -3.247834652034740e3, -6.958407078382297e3), answer(metric, "ms");
    else if (strcmp(metric, "array.ep.W") == 0) ep(25, -2.863319731645753e3, -6.320053679109499e3), answer(metric, "ms");
    else if (strcmp(metric, "array.ep.A") == 0) ep(28, -4.295875165629892e3, -1.580732573678431e4), answer(metric, "ms");
    else return 0;
    return 1;
}

int main(void)
{
    char line[COMMAND_BYTES], metric[COMMAND_BYTES];
    if (xmpc_all_node_num() == 0) printf("ready Kumiki, translated XcalableMP C\n"), fflush(stdout);
    for (;;) {
        long reps = 0;
        memset(line, 0, sizeof line);
        if (xmpc_all_node_num() == 0 && !fgets(line, sizeof line, stdin)) line[0] = 0;
#pragma xmp bcast (line)
        int words = sscanf(line, "%127s %ld", metric, &reps);
        if (words < 1 || strcmp(metric, "quit") == 0) return 0;
        if (words != 2 || reps < 1 || reps > MAX_REPS || !measure(metric, reps))
            if (xmpc_all_node_num() == 0) printf("{\"metric\":\"%s\",\"error\":\"not known here\"}\n", metric), fflush(stdout);
    }
}
