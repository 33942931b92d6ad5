/*
 * Steady conduction of heat in a cube, by finite elements, in the manner of pHEAT-3D: 8-node bricks, each rank assembles the rows of its own
 * nodes in compressed rows, and conjugate gradients with diagonal scaling solve. The box is cut into X x Y x Z boxes of nodes.
 *
 * heat3d N XxYxZ [exact] [uniform]
 *
 * N elements an edge. Heat comes from everywhere, |x + y| a volume (1 with `uniform`, where the solution is known in every node); the top is
 * kept at 0, and the other sides are insulated. With `exact`, sums are those of all digits, rounded once, and so the same in any order.
 *
 * Written against MPI. waitio_names.h replaces the names, and then the same source runs over several programs, each under its own MPI:
 * what communicates goes through WaitIO; starting, ending and the clock stay with the MPI of each.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-8
#define MOST_STEPS 10000
#define TRY(call)                                                                                                     \
    do {                                                                                                              \
        if ((call) != 0) {                                                                                            \
            fprintf(stderr, "heat3d: rank %d: %s failed\n", rank, #call);                                             \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* Nodes of this rank come first, those of each neighbour behind them. */
struct mesh {
    int edge;        /* nodes an edge of the cube */
    int first[3], end[3];
    int own, all;    /* nodes */
    int *global;     /* their numbers in the cube */
    int elements, *corners; /* 8 nodes each */
    int neighbours, neighbour[26];
    int import[27];  /* where the nodes of each neighbour begin, behind our own */
    int export_[27], *item; /* which of ours each neighbour needs */
};

struct matrix {
    int *start, *column;
    double *value, *diagonal;
};

static int rank, size, is_exact;
static double exchanging, summing;

static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL) {
        fprintf(stderr, "heat3d: rank %d: no memory for %zu x %zu bytes\n", rank, count, bytes);
        exit(1);
    }
    return memory;
}

/* ---- the mesh ---- */

/* The nodes that part `at` of `parts` has along one axis. */
static void share(int nodes, int parts, int at, int *first, int *end)
{
    *first = (int)((long)nodes * at / parts);
    *end = (int)((long)nodes * (at + 1) / parts);
}

static int number(const struct mesh *mesh, int x, int y, int z)
{
    return (z * mesh->edge + y) * mesh->edge + x;
}

/* The numbers of the nodes of a box, the smallest first; gives how many. */
static int nodes_of(const struct mesh *mesh, const int first[3], const int end[3], int *into)
{
    int x, y, z, count = 0;
    for (z = first[2]; z < end[2]; z++)
        for (y = first[1]; y < end[1]; y++)
            for (x = first[0]; x < end[0]; x++)
                into[count++] = number(mesh, x, y, z);
    return count;
}

static void make_mesh(struct mesh *mesh, int elements, const int parts[3])
{
    int at[3] = {rank % parts[0], rank / parts[0] % parts[1], rank / parts[0] / parts[1]};
    int wide_first[3], wide_end[3], axis, dx, dy, dz, node, corner, *local;
    size_t wide = 1;
    memset(mesh, 0, sizeof *mesh);
    mesh->edge = elements + 1;
    for (axis = 0; axis < 3; axis++) {
        share(mesh->edge, parts[axis], at[axis], &mesh->first[axis], &mesh->end[axis]);
        wide_first[axis] = mesh->first[axis] > 0 ? mesh->first[axis] - 1 : 0;
        wide_end[axis] = mesh->end[axis] < mesh->edge ? mesh->end[axis] + 1 : mesh->edge;
        wide *= (size_t)(wide_end[axis] - wide_first[axis]);
    }
    mesh->global = room(wide, sizeof(int));
    mesh->item = room(26 * wide, sizeof(int));
    mesh->own = mesh->all = nodes_of(mesh, mesh->first, mesh->end, mesh->global);
    for (dz = -1; dz <= 1; dz++)
        for (dy = -1; dy <= 1; dy++)
            for (dx = -1; dx <= 1; dx++) {
                int step[3] = {dx, dy, dz}, other[3], theirs[2][3], ours[2][3], is_there = dx || dy || dz, n = mesh->neighbours;
                for (axis = 0; axis < 3; axis++) {
                    int first, end;
                    other[axis] = at[axis] + step[axis];
                    if (other[axis] < 0 || other[axis] >= parts[axis]) {
                        is_there = 0;
                        break;
                    }
                    /* Their nodes that touch our box, and ours that touch theirs. */
                    share(mesh->edge, parts[axis], other[axis], &first, &end);
                    theirs[0][axis] = step[axis] > 0 ? first : step[axis] < 0 ? end - 1 : mesh->first[axis];
                    theirs[1][axis] = step[axis] == 0 ? mesh->end[axis] : theirs[0][axis] + 1;
                    ours[0][axis] = step[axis] > 0 ? mesh->end[axis] - 1 : mesh->first[axis];
                    ours[1][axis] = step[axis] == 0 ? mesh->end[axis] : ours[0][axis] + 1;
                }
                if (!is_there)
                    continue;
                mesh->neighbour[n] = (other[2] * parts[1] + other[1]) * parts[0] + other[0];
                mesh->import[n] = mesh->all;
                mesh->all += nodes_of(mesh, theirs[0], theirs[1], mesh->global + mesh->all);
                mesh->import[n + 1] = mesh->all;
                mesh->export_[n + 1] = mesh->export_[n] + nodes_of(mesh, ours[0], ours[1], mesh->item + mesh->export_[n]);
                mesh->neighbours++;
            }

    /* From the numbers in the cube to ours. */
    local = room((size_t)mesh->edge * mesh->edge * mesh->edge, sizeof(int));
    for (node = 0; node < mesh->all; node++)
        local[mesh->global[node]] = node;
    for (node = 0; node < mesh->export_[mesh->neighbours]; node++)
        mesh->item[node] = local[mesh->item[node]];
    /* All elements that have a node of ours. */
    mesh->corners = room(8 * wide, sizeof(int));
    for (dz = wide_first[2]; dz + 1 < wide_end[2]; dz++)
        for (dy = wide_first[1]; dy + 1 < wide_end[1]; dy++)
            for (dx = wide_first[0]; dx + 1 < wide_end[0]; dx++, mesh->elements++)
                for (corner = 0; corner < 8; corner++)
                    mesh->corners[8 * mesh->elements + corner] =
                        local[number(mesh, dx + (corner & 1), dy + (corner >> 1 & 1), dz + (corner >> 2))];
    free(local);
}

static void place(const struct mesh *mesh, int node, double at[3])
{
    int global = mesh->global[node];
    at[0] = (double)(global % mesh->edge) / (mesh->edge - 1);
    at[1] = (double)(global / mesh->edge % mesh->edge) / (mesh->edge - 1);
    at[2] = (double)(global / mesh->edge / mesh->edge) / (mesh->edge - 1);
}

static int is_cold(const struct mesh *mesh, int node)
{
    return mesh->global[node] / mesh->edge / mesh->edge == mesh->edge - 1;
}

/* ---- the matrix ---- */

static int column_of(const struct matrix *matrix, int row, int column)
{
    int at = matrix->start[row];
    while (matrix->column[at] != column)
        at++;
    return at;
}

/* Which nodes share an element: columns stand in the order of the cube, so that a row is summed up in the same order on any rank. */
static void make_rows(const struct mesh *mesh, struct matrix *matrix)
{
    int *found = room((size_t)27 * mesh->own, sizeof(int)), *count = room((size_t)mesh->own, sizeof(int));
    int element, one, two, row, at, entries = 0;
    for (element = 0; element < mesh->elements; element++)
        for (one = 0; one < 8; one++) {
            const int *corners = mesh->corners + 8 * element;
            if ((row = corners[one]) >= mesh->own)
                continue;
            for (two = 0; two < 8; two++) {
                int *list = found + (size_t)27 * row, column = corners[two], number = mesh->global[column];
                for (at = 0; at < count[row] && mesh->global[list[at]] < number; at++)
                    ;
                if (at < count[row] && list[at] == column)
                    continue;
                memmove(list + at + 1, list + at, (size_t)(count[row] - at) * sizeof(int));
                list[at] = column;
                count[row]++;
            }
        }
    matrix->start = room((size_t)mesh->own + 1, sizeof(int));
    for (row = 0; row < mesh->own; row++)
        matrix->start[row + 1] = entries += count[row];
    matrix->column = room((size_t)entries, sizeof(int));
    matrix->value = room((size_t)entries, sizeof(double));
    matrix->diagonal = room((size_t)mesh->own, sizeof(double));
    for (row = 0; row < mesh->own; row++)
        memcpy(matrix->column + matrix->start[row], found + (size_t)27 * row, (size_t)count[row] * sizeof(int));
    free(found);
    free(count);
}

/* Stiffness and load of an element, by 2 x 2 x 2 points. */
static void integrate(double corner[8][3], double source, double stiffness[8][8], double load[8])
{
    int point, i, j, axis, other;
    memset(stiffness, 0, 64 * sizeof(double));
    memset(load, 0, 8 * sizeof(double));
    for (point = 0; point < 8; point++) {
        double at[3], shape[8], slope[8][3], jacobian[3][3] = {{0}}, inverse[3][3], volume;
        for (axis = 0; axis < 3; axis++)
            at[axis] = (point >> axis & 1 ? 1 : -1) / sqrt(3.0);
        for (i = 0; i < 8; i++) {
            double part[3], sign[3];
            for (axis = 0; axis < 3; axis++) {
                sign[axis] = i >> axis & 1 ? 1 : -1;
                part[axis] = 1 + sign[axis] * at[axis];
            }
            shape[i] = part[0] * part[1] * part[2] / 8;
            slope[i][0] = sign[0] * part[1] * part[2] / 8;
            slope[i][1] = part[0] * sign[1] * part[2] / 8;
            slope[i][2] = part[0] * part[1] * sign[2] / 8;
            for (axis = 0; axis < 3; axis++)
                for (other = 0; other < 3; other++)
                    jacobian[axis][other] += slope[i][axis] * corner[i][other];
        }
        for (i = 0; i < 3; i++)
            for (j = 0; j < 3; j++) {
                int a = (j + 1) % 3, b = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
                inverse[i][j] = jacobian[a][c] * jacobian[b][d] - jacobian[a][d] * jacobian[b][c];
            }
        volume = jacobian[0][0] * inverse[0][0] + jacobian[0][1] * inverse[1][0] + jacobian[0][2] * inverse[2][0];
        for (i = 0; i < 8; i++) {
            double gradient[3];
            for (axis = 0; axis < 3; axis++)
                gradient[axis] =
                    (inverse[axis][0] * slope[i][0] + inverse[axis][1] * slope[i][1] + inverse[axis][2] * slope[i][2]) / volume;
            memcpy(slope[i], gradient, sizeof gradient);
        }
        for (i = 0; i < 8; i++) {
            load[i] += source * shape[i] * volume;
            for (j = 0; j < 8; j++)
                stiffness[i][j] += (slope[i][0] * slope[j][0] + slope[i][1] * slope[j][1] + slope[i][2] * slope[j][2]) * volume;
        }
    }
}

static void assemble(const struct mesh *mesh, struct matrix *matrix, double *load, int is_uniform)
{
    int element, i, j, row, at;
    make_rows(mesh, matrix);
    for (element = 0; element < mesh->elements; element++) {
        const int *corners = mesh->corners + 8 * element;
        double corner[8][3], stiffness[8][8], loads[8], source;
        for (i = 0; i < 8; i++)
            place(mesh, corners[i], corner[i]);
        source = is_uniform ? 1 : fabs((corner[0][0] + corner[7][0]) / 2 + (corner[0][1] + corner[7][1]) / 2);
        integrate(corner, source, stiffness, loads);
        for (i = 0; i < 8; i++) {
            if ((row = corners[i]) >= mesh->own || is_cold(mesh, row))
                continue;
            load[row] += loads[i];
            for (j = 0; j < 8; j++)
                if (!is_cold(mesh, corners[j]))
                    matrix->value[column_of(matrix, row, corners[j])] += stiffness[i][j];
        }
    }
    for (row = 0; row < mesh->own; row++) {
        at = column_of(matrix, row, row);
        if (is_cold(mesh, row))
            matrix->value[at] = 1;
        matrix->diagonal[row] = matrix->value[at];
    }
}

/* ---- what communicates ---- */

/* Gets the values of the neighbours' nodes. */
static void exchange(const struct mesh *mesh, double *field)
{
    static double *packed;
    MPI_Request requests[52];
    MPI_Status statuses[52];
    int n, at, count = 0;
    double began = MPI_Wtime();
    if (packed == NULL)
        packed = room((size_t)mesh->export_[mesh->neighbours], sizeof(double));
    for (n = 0; n < mesh->neighbours; n++) {
        int from = mesh->import[n], values = mesh->import[n + 1] - from;
        TRY(MPI_Irecv(field + from, values, MPI_DOUBLE, mesh->neighbour[n], 0, MPI_COMM_WORLD, &requests[count++]));
    }
    for (n = 0; n < mesh->neighbours; n++) {
        int from = mesh->export_[n], values = mesh->export_[n + 1] - from;
        for (at = from; at < from + values; at++)
            packed[at] = field[mesh->item[at]];
        TRY(MPI_Isend(packed + from, values, MPI_DOUBLE, mesh->neighbour[n], 0, MPI_COMM_WORLD, &requests[count++]));
    }
    TRY(MPI_Waitall(count, requests, statuses));
    exchanging += MPI_Wtime() - began;
}

/* A number with all digits that a sum of doubles can have: each part has 32 bits, and room for 2^31 carries. */
enum { PARTS = 68, LOWEST = -1088 };

static void add_exactly(long *sum, double value)
{
    int exponent, position, part, sign = value < 0 ? -1 : 1;
    unsigned long digits, low, high;
    double mantissa = frexp(fabs(value), &exponent);
    if (value == 0)
        return;
    digits = (unsigned long)ldexp(mantissa, 53);
    position = exponent - 53 - LOWEST;
    part = position / 32;
    low = (digits & 0xffffffff) << position % 32;
    high = (digits >> 32) << position % 32;
    sum[part] += sign * (long)(low & 0xffffffff);
    sum[part + 1] += sign * (long)((low >> 32) + (high & 0xffffffff));
    sum[part + 2] += sign * (long)(high >> 32);
}

static double rounded(long *sum)
{
    double value = 0;
    int part;
    for (part = 0; part + 1 < PARTS; part++) {
        long carry = sum[part] >> 32;
        sum[part] -= carry * (1L << 32);
        sum[part + 1] += carry;
    }
    for (part = PARTS - 1; part >= 0; part--)
        if (sum[part] != 0)
            value += ldexp((double)sum[part], 32 * part + LOWEST);
    return value;
}

/* The product of two vectors over all ranks. */
static double dot(const struct mesh *mesh, const double *one, const double *two)
{
    double part = 0, sum = 0, began;
    long parts[PARTS] = {0}, sums[PARTS];
    int row;
    if (is_exact)
        for (row = 0; row < mesh->own; row++)
            add_exactly(parts, one[row] * two[row]);
    else
        for (row = 0; row < mesh->own; row++)
            part += one[row] * two[row];
    began = MPI_Wtime();
    if (is_exact) {
        TRY(MPI_Allreduce(parts, sums, PARTS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        sum = rounded(sums);
    } else
        TRY(MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    summing += MPI_Wtime() - began;
    return sum;
}

static void multiply(const struct mesh *mesh, const struct matrix *matrix, double *field, double *into)
{
    int row, at;
    exchange(mesh, field);
    for (row = 0; row < mesh->own; row++) {
        double sum = 0;
        for (at = matrix->start[row]; at < matrix->start[row + 1]; at++)
            sum += matrix->value[at] * field[matrix->column[at]];
        into[row] = sum;
    }
}

/* Solves, and gives how many steps that took. Says the residual of every tenth step, with all its digits. */
static int solve(const struct mesh *mesh, const struct matrix *matrix, const double *load, double *field)
{
    double *r = room((size_t)mesh->own, sizeof(double)), *z = room((size_t)mesh->own, sizeof(double));
    double *p = room((size_t)mesh->all, sizeof(double)), *q = room((size_t)mesh->own, sizeof(double));
    double whole = dot(mesh, load, load), before = 1, residual = 1;
    int row, step = 0;
    multiply(mesh, matrix, field, q);
    for (row = 0; row < mesh->own; row++)
        r[row] = load[row] - q[row];
    while (residual > TOLERANCE && step < MOST_STEPS) {
        double rho, alpha;
        step++;
        for (row = 0; row < mesh->own; row++)
            z[row] = r[row] / matrix->diagonal[row];
        rho = dot(mesh, r, z);
        for (row = 0; row < mesh->own; row++)
            p[row] = z[row] + (step == 1 ? 0 : rho / before) * p[row];
        before = rho;
        multiply(mesh, matrix, p, q);
        alpha = rho / dot(mesh, p, q);
        for (row = 0; row < mesh->own; row++) {
            field[row] += alpha * p[row];
            r[row] -= alpha * q[row];
        }
        residual = sqrt(dot(mesh, r, r) / whole);
        if (rank == 0 && (step % 10 == 0 || residual <= TOLERANCE))
            printf("step %d: residual %.17g\n", step, residual);
    }
    free(r);
    free(z);
    free(p);
    free(q);
    return step;
}

/* ---- the rest ---- */

/* The largest value of all ranks. */
static double largest(double mine)
{
    double all;
    TRY(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return all;
}

/* KiB that a file of /proc says behind names that begin so, summed up. */
static double kibibytes(const char *path, const char *name)
{
    char line[256];
    double sum = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) == 0 && colon != NULL)
            sum += atof(colon + 1);
    }
    fclose(file);
    return sum;
}

int main(int argc, char **argv)
{
    struct mesh mesh;
    struct matrix matrix;
    int elements, parts[3], word, row, steps, is_uniform = 0;
    double *load, *field, hottest = 0, error = 0, began, assembling, solving, before;
    MPI_Init(&argc, &argv);
    before = kibibytes("/proc/self/smaps_rollup", "Anonymous");
    TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    TRY(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (argc < 3 || (elements = atoi(argv[1])) < 1 || sscanf(argv[2], "%dx%dx%d", &parts[0], &parts[1], &parts[2]) != 3
        || parts[0] < 1 || parts[1] < 1 || parts[2] < 1 || parts[0] * parts[1] * parts[2] != size || parts[0] > elements
        || parts[1] > elements || parts[2] > elements) {
        fprintf(stderr, "usage: heat3d ELEMENTS XxYxZ [exact] [uniform], on X times Y times Z ranks; here are %d\n", size);
        return 2;
    }
    for (word = 3; word < argc; word++) {
        is_exact |= strcmp(argv[word], "exact") == 0;
        is_uniform |= strcmp(argv[word], "uniform") == 0;
    }

    began = MPI_Wtime();
    make_mesh(&mesh, elements, parts);
    load = room((size_t)mesh.own, sizeof(double));
    field = room((size_t)mesh.all, sizeof(double));
    assemble(&mesh, &matrix, load, is_uniform);
    assembling = MPI_Wtime() - began;
    /* Who comes late to the solver does not make it slower. */
    largest(0);
    began = MPI_Wtime();
    steps = solve(&mesh, &matrix, load, field);
    solving = MPI_Wtime() - began;

    for (row = 0; row < mesh.own; row++) {
        double at[3];
        place(&mesh, row, at);
        hottest = fmax(hottest, field[row]);
        error = fmax(error, fabs(field[row] - (1 - at[2] * at[2]) / 2));
    }
    hottest = largest(hottest);
    error = largest(error);
    assembling = largest(assembling);
    solving = largest(solving);
    exchanging = largest(exchanging);
    summing = largest(summing);
    {
        /* Pages of files are private where nobody else has mapped them; what is anonymous is the program's own in any case. */
        double resident = largest(kibibytes("/proc/self/status", "VmHWM"));
        double private = largest(kibibytes("/proc/self/smaps_rollup", "Private_"));
        double anonymous = kibibytes("/proc/self/smaps_rollup", "Anonymous"), added = largest(anonymous - before);
        anonymous = largest(anonymous);
        if (rank == 0) {
            printf("%d ranks, %d nodes, %d steps\nhottest %.17g\n", size, mesh.edge * mesh.edge * mesh.edge, steps, hottest);
            if (is_uniform)
                printf("error %.1e\n", error);
            printf("time: assembly %.3f s, solver %.3f s, of it exchange %.3f s and sums %.3f s\n", assembling, solving,
                exchanging, summing);
            printf("memory of a rank, at most: %.0f KiB resident (VmHWM), %.0f KiB private, %.0f KiB anonymous, %.0f KiB of these "
                   "since MPI_Init\n",
                resident, private, anonymous, added);
        }
    }
    MPI_Finalize();
    return 0;
}
