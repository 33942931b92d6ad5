/*
 * Waves in a basin: the wave equation on a grid whose rows lie on the ranks of an MPI job. A paddle on the left makes waves, a wall with two gaps
 * stands in their way, and beaches around swallow what arrives. Every few steps each rank sends its rows through WaitIO to an
 * analysis, which is another program without MPI, and takes from it how strong the paddle shall be from then on.
 *
 * Rows go from rank to rank by MPI, within this program; fields and strengths by WaitIO, between the two. README.md says how both are started.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waitio_mpi.h>

enum { COLUMNS = 300, ROWS = 200, FRAMES = 72, STEPS = 16 };
enum { PADDLE = 26, WALL = 92, GAP = 9, APART = 26, BEACH = 24 };
enum { GEOMETRY_TAG = 1, FIELD_TAG, STRENGTH_TAG };

#define TRY(call)                                                            \
    do {                                                                     \
        if ((call) != 0) {                                                   \
            fprintf(stderr, "simulation: %s: %s\n", #call, waitio_error());  \
            MPI_Abort(MPI_COMM_WORLD, 1);                                    \
        }                                                                    \
    } while (0)

/* Three moments of our rows, with a row of each neighbour around them. */
struct basin {
    int first, rows;
    double *before, *now, *after;
};

static double *row(double *field, int at)
{
    return field + (size_t)(at + 1) * COLUMNS;
}

static int is_wall(int x, int y)
{
    int from_middle = abs(2 * y + 1 - ROWS);
    return x >= WALL && x < WALL + 4 && (from_middle < 2 * APART - GAP || from_middle > 2 * APART + GAP);
}

/* How much of a wave a step leaves: less and less towards the border. */
static double damping(int x, int y)
{
    int left = x < COLUMNS - 1 - x ? x : COLUMNS - 1 - x, down = y < ROWS - 1 - y ? y : ROWS - 1 - y;
    int border = left < down ? left : down;
    double depth = border < BEACH ? 1 - (double)border / BEACH : 0;
    return 1 - 0.16 * depth * depth * depth;
}

/* The rows of the ranks below and above. */
static void exchange(struct basin *basin, int rank, int ranks)
{
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    double *field = basin->now;
    MPI_Sendrecv(row(field, 0), COLUMNS, MPI_DOUBLE, below, 0, row(field, basin->rows), COLUMNS, MPI_DOUBLE, above, 0,
        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(field, basin->rows - 1), COLUMNS, MPI_DOUBLE, above, 1, row(field, -1), COLUMNS, MPI_DOUBLE, below, 1,
        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void step(struct basin *basin, double push)
{
    int x, y;
    double *oldest = basin->before;
    for (y = 0; y < basin->rows; y++) {
        const double *now = row(basin->now, y), *before = row(basin->before, y);
        double *after = row(basin->after, y);
        for (x = 1; x < COLUMNS - 1; x++) {
            double bent = now[x - 1] + now[x + 1] + now[x - COLUMNS] + now[x + COLUMNS] - 4 * now[x], left = damping(x, basin->first + y);
            after[x] = is_wall(x, basin->first + y) ? 0 : left * (2 * now[x] - left * before[x] + 0.45 * bent);
        }
        after[PADDLE] += push;
    }
    basin->before = basin->now;
    basin->now = basin->after;
    basin->after = oldest;
}

int main(int argc, char **argv)
{
    struct basin basin;
    int rank, ranks, x, y, frame, at, blocks, counts[2], geometry[6], clock = 0;
    size_t cells;
    float *picture;
    double strength = 0.02, next;
    WAITIO_MPI_Comm everybody;
    WAITIO_MPI_Request sent, asked;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    TRY(waitio_create_universe(&everybody));
    TRY(waitio_pb_size(&blocks));
    if (blocks != 2) {
        fprintf(stderr, "simulation: there should be two blocks, this one and the analysis, and there are %d\n", blocks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    waitio_get_nprocs(counts);

    basin.first = ROWS * rank / ranks;
    basin.rows = ROWS * (rank + 1) / ranks - basin.first;
    cells = (size_t)(basin.rows + 2) * COLUMNS;
    basin.before = calloc(cells, sizeof(double));
    basin.now = calloc(cells, sizeof(double));
    basin.after = calloc(cells, sizeof(double));
    picture = calloc(cells, sizeof(float));
    if (!basin.before || !basin.now || !basin.after || !picture)
        MPI_Abort(MPI_COMM_WORLD, 1);

    /* The analysis is the one process of block 1, and so comes right behind us. First it hears what there is: where our rows are, and the wall. */
    geometry[0] = COLUMNS, geometry[1] = ROWS, geometry[2] = FRAMES, geometry[3] = basin.first, geometry[4] = basin.rows;
    geometry[5] = WALL;
    TRY(waitio_mpi_send(geometry, 6, WAITIO_MPI_INT, ranks, GEOMETRY_TAG, everybody));
    for (y = 0; y < basin.rows; y++)
        for (x = 0; x < COLUMNS; x++)
            picture[y * COLUMNS + x] = (float)is_wall(x, basin.first + y);
    TRY(waitio_mpi_send(picture, basin.rows * COLUMNS, WAITIO_MPI_FLOAT, ranks, FIELD_TAG, everybody));

    for (frame = 0; frame < FRAMES; frame++) {
        for (at = 0; at < STEPS; at++) {
            exchange(&basin, rank, ranks);
            step(&basin, strength * sin(0.3 * clock++));
        }
        /* What the analysis says to a frame comes while the next one is computed, and holds behind that. */
        if (frame > 0) {
            TRY(waitio_mpi_wait(&sent, WAITIO_MPI_STATUS_IGNORE));
            TRY(waitio_mpi_wait(&asked, WAITIO_MPI_STATUS_IGNORE));
            strength = next;
        }
        for (y = 0; y < basin.rows; y++)
            for (x = 0; x < COLUMNS; x++)
                picture[y * COLUMNS + x] = (float)row(basin.now, y)[x];
        TRY(waitio_mpi_irecv(&next, 1, WAITIO_MPI_DOUBLE, ranks, STRENGTH_TAG, everybody, &asked));
        TRY(waitio_mpi_isend(picture, basin.rows * COLUMNS, WAITIO_MPI_FLOAT, ranks, FIELD_TAG, everybody, &sent));
    }
    TRY(waitio_mpi_wait(&sent, WAITIO_MPI_STATUS_IGNORE));
    TRY(waitio_mpi_wait(&asked, WAITIO_MPI_STATUS_IGNORE));
    if (rank == 0)
        printf("%d steps of %d x %d cells; the paddle is at %.4f\n", clock, COLUMNS, ROWS, next);
    waitio_finalize();
    MPI_Finalize();
    return 0;
}
