/*
 * A conjugate-gradient solver: the Poisson equation on the unit square, whose cells lie in slabs on the ranks. Each step needs the
 * rows of the neighbours (a halo) and two sums over all cells (an allreduce). The rows in the middle are computed while the others come.
 *
 * kumiki cc cg.c -o cg -lm && kumiki run -n 4 ./cg
 */
#include <kumiki.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 96, MOST_STEPS = 400 };

#define TRY(call)                                                                   \
    do {                                                                            \
        if ((call) != KUMIKI_SUCCESS) {                                             \
            fprintf(stderr, "%s: %s\n", #call, kumiki_last_error());                \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* A slab of rows, with a ghost row below and above and a border of zeros left and right. */
struct slab {
    size_t first, rows;
    kumiki_halo *halo;
};

static double *at(double *field, size_t row, size_t column)
{
    return field + (row + 1) * (CELLS + 2) + column + 1;
}

/* The five-point operator on some rows. */
static void apply(double *into, double *from, size_t first, size_t end)
{
    size_t x, y;
    for (x = first; x < end; x++)
        for (y = 0; y < CELLS; y++) {
            const double *cell = at(from, x, y);
            *at(into, x, y) = 4 * cell[0] - cell[-1] - cell[1] - cell[-(CELLS + 2)] - cell[CELLS + 2];
        }
}

/* The product of two fields over all ranks. */
static double dot(const kumiki_group *group, const struct slab *slab, double *one, double *two)
{
    double sum = 0;
    size_t x, y;
    for (x = 0; x < slab->rows; x++)
        for (y = 0; y < CELLS; y++)
            sum += *at(one, x, y) * *at(two, x, y);
    TRY(kumiki_group_allreduce(group, &sum, 1, KUMIKI_F64, KUMIKI_ADD));
    return sum;
}

/* into = one + factor * two */
static void add(const struct slab *slab, double *into, double *one, double factor, double *two)
{
    size_t x, y;
    for (x = 0; x < slab->rows; x++)
        for (y = 0; y < CELLS; y++)
            *at(into, x, y) = *at(one, x, y) + factor * *at(two, x, y);
}

/* The solution that is to be found again. */
static double exact(size_t row, size_t column)
{
    const double step = 1.0 / (CELLS + 1), x = step * (double)(row + 1), y = step * (double)(column + 1);
    return x * (1 - x) * y * (1 - y) * exp(x + 2 * y);
}

/* Applies the operator: the rows in the middle while those of the neighbours come. */
static void image_of(const struct slab *slab, double *into, double *from)
{
    void *fields[1];
    fields[0] = from;
    TRY(kumiki_halo_start(slab->halo, fields));
    apply(into, from, 1, slab->rows - 1);
    TRY(kumiki_halo_finish(slab->halo, fields));
    apply(into, from, 0, 1);
    apply(into, from, slab->rows - 1, slab->rows);
}

/* Solves for a source of which the solution is known; the largest difference from it on all ranks. */
static double solve(const kumiki_group *group, const struct slab *slab, int *steps)
{
    size_t size = (slab->rows + 2) * (CELLS + 2), x, y;
    double *solution = (double *)calloc(size, 8), *rest = (double *)calloc(size, 8), *way = (double *)calloc(size, 8);
    double *image = (double *)calloc(size, 8), squared, error = 0;
    for (x = 0; x < slab->rows; x++)
        for (y = 0; y < CELLS; y++)
            *at(way, x, y) = exact(slab->first + x, y);
    image_of(slab, rest, way);
    add(slab, way, rest, 0, rest);
    squared = dot(group, slab, rest, rest);
    for (*steps = 0; *steps < MOST_STEPS && squared > 1e-24; ++*steps) {
        double factor, before = squared;
        image_of(slab, image, way);
        factor = squared / dot(group, slab, way, image);
        add(slab, solution, solution, factor, way);
        add(slab, rest, rest, -factor, image);
        squared = dot(group, slab, rest, rest);
        add(slab, way, rest, squared / before, way);
    }
    for (x = 0; x < slab->rows; x++)
        for (y = 0; y < CELLS; y++)
            error = fmax(error, fabs(*at(solution, x, y) - exact(slab->first + x, y)));
    TRY(kumiki_group_allreduce(group, &error, 1, KUMIKI_F64, KUMIKI_MAX));
    free(solution);
    free(rest);
    free(way);
    free(image);
    return error;
}

int main(void)
{
    kumiki_world *world;
    kumiki_group *group;
    kumiki_grid *grid;
    struct slab slab;
    uint32_t me, ranks, extents[2] = {0, 1};
    const int periodic[2] = {0, 0};
    size_t piece[2] = {0, CELLS + 2}, ghosts[4] = {1, 1, 0, 0};
    double error;
    int steps;
    TRY(kumiki_init(&world));
    me = (uint32_t)kumiki_rank(world);
    ranks = extents[0] = (uint32_t)kumiki_ranks(world);
    slab.first = (size_t)CELLS * me / ranks;
    slab.rows = piece[0] = (size_t)CELLS * (me + 1) / ranks - slab.first;
    TRY(kumiki_group_create(world, NULL, &group));
    TRY(kumiki_grid_create(group, 2, extents, periodic, &grid));
    TRY(kumiki_halo_create(grid, sizeof(double), piece, ghosts, 0, 1, &slab.halo));
    error = solve(group, &slab, &steps);
    if (me == 0)
        printf("%d by %d cells: %s\n", CELLS, CELLS, steps < MOST_STEPS && error < 1e-9 ? "solved" : "not solved");
    TRY(kumiki_halo_free(slab.halo));
    TRY(kumiki_grid_free(grid));
    TRY(kumiki_group_free(group));
    return kumiki_finalize(world);
}
