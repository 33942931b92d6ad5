/* Memory of a master and of groups that are an MPI job each: the master sends 4 bytes to the first process of every group (its root), which
 * broadcasts them inside its group. Once with MPI_Comm_spawn, once as one world of several jobs (`macprun`).
 *
 *   join spawn GROUPS SIZE          under mpirun -n 1: the master; it starts the groups
 *   join group GROUPS SIZE LIBRARY  under an mpirun of its own, of macprun: a process of a group
 *   join master GROUPS SIZE LIBRARY under macprun: the master, which needs no MPI (compile with -DWITHOUT_MPI for a program that has none, and with
 *                                   -DLINKED -static against libkumiki.a for one in which nothing is relocated when it starts)
 *
 * The master and every root print one line of JSON, in KiB as /proc/self/smaps_rollup has them:
 *   {"who":"root","before":{..},"opened":{..},"after":{..}}   {..} is {"clean":0,"dirty":3140,"anonymous":3136}
 * `before`: MPI is initialised and has broadcast once, where there is MPI; `opened`: the library was loaded; `after`: all of it is done, and everybody
 * is still there. With MPI_Comm_spawn a root is connected from the beginning, and has `after` only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#ifndef WITHOUT_MPI
#include <mpi.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GROUPS = 1024, VALUE = 4711, TEXT_BYTES = 8192 };

struct figures { long clean, dirty, anonymous; };

static char text[TEXT_BYTES]; /* where nothing is found by whom is measured */

static void die(const char *what)
{
    fprintf(stderr, "join: %s\n", what);
    exit(1);
}

static long figure(const char *name)
{
    const char *at = strstr(text, name);
    if (!at) die("smaps_rollup has not what it should");
    return atol(at + strlen(name));
}

static struct figures figures_now(void)
{
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (got <= 0) die("cannot read smaps_rollup");
    close(file);
    text[got] = 0;
    struct figures f = {figure("Private_Clean:"), figure("Private_Dirty:"), figure("Anonymous:")};
    return f;
}

static int write_figures(char *to, const char *name, struct figures f)
{
    return sprintf(to, ",\"%s\":{\"clean\":%ld,\"dirty\":%ld,\"anonymous\":%ld}", name, f.clean, f.dirty, f.anonymous);
}

/* One line in one write: lines of several processes do not mix. */
static void tell(const char *who, const struct figures *before, const struct figures *opened, struct figures after)
{
    char line[512];
    int n = sprintf(line, "{\"who\":\"%s\"", who);
    if (before) n += write_figures(line + n, "before", *before);
    if (opened) n += write_figures(line + n, "opened", *opened);
    n += write_figures(line + n, "after", after);
    n += sprintf(line + n, "}\n");
    if (write(STDOUT_FILENO, line, (size_t)n) != n) die("cannot write");
}

#ifndef WITHOUT_MPI
static int broadcast(int value)
{
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}
#endif

/* ---- one world of several jobs ---- */

static struct {
    int (*init)(void **);
    int (*sync)(const void *);
    int64_t (*rank)(const void *);
    int (*starter)(const void *, uint32_t, uint64_t *);
    int (*put)(const void *, uint64_t, const void *, size_t);
    int (*get)(const void *, void *, uint64_t, size_t);
    int (*finalize)(void *);
    const char *(*why)(void);
} kumiki;

#ifdef LINKED
int kumiki_init(void **);
int kumiki_sync(const void *);
int64_t kumiki_rank(const void *);
int kumiki_starter(const void *, uint32_t, uint64_t *);
int kumiki_put(const void *, uint64_t, const void *, size_t);
int kumiki_get(const void *, void *, uint64_t, size_t);
int kumiki_finalize(void *);
const char *kumiki_last_error(void);

static void load(const char *path)
{
    (void)path;
    kumiki.init = kumiki_init;
    kumiki.sync = kumiki_sync;
    kumiki.rank = kumiki_rank;
    kumiki.starter = kumiki_starter;
    kumiki.put = kumiki_put;
    kumiki.get = kumiki_get;
    kumiki.finalize = kumiki_finalize;
    kumiki.why = kumiki_last_error;
}
#else
static void *found(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) die(dlerror());
    return function;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) die(dlerror());
    *(void **)&kumiki.init = found(library, "kumiki_init");
    *(void **)&kumiki.sync = found(library, "kumiki_sync");
    *(void **)&kumiki.rank = found(library, "kumiki_rank");
    *(void **)&kumiki.starter = found(library, "kumiki_starter");
    *(void **)&kumiki.put = found(library, "kumiki_put");
    *(void **)&kumiki.get = found(library, "kumiki_get");
    *(void **)&kumiki.finalize = found(library, "kumiki_finalize");
    *(void **)&kumiki.why = found(library, "kumiki_last_error");
}
#endif

static void check(int status)
{
    if (status != 0) die(kumiki.why());
}

static int joined(int is_master, int groups, int size, const char *path)
{
    int root = is_master, value = 0;
    void *world = NULL;
    uint64_t word;
#ifndef WITHOUT_MPI
    int rank;
    if (!is_master) {
        MPI_Init(NULL, NULL);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        root = rank == 0;
        broadcast(0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
#endif
    figures_now(); /* the first reading touches what reading touches */
    struct figures before = figures_now();
    load(path);
    struct figures opened = figures_now();
    check(kumiki.init(&world));
    for (int group = 0; is_master && group < groups; group++) {
        value = VALUE;
        check(kumiki.starter(world, (uint32_t)(1 + group * size), &word));
        check(kumiki.put(world, word, &value, sizeof value));
    }
    check(kumiki.sync(world));
    if (root && !is_master) {
        check(kumiki.starter(world, (uint32_t)kumiki.rank(world), &word));
        check(kumiki.get(world, &value, word, sizeof value));
    }
#ifndef WITHOUT_MPI
    if (!is_master) value = broadcast(value);
#endif
    if (value != VALUE) die("the wrong value came");
    check(kumiki.sync(world));
    if (root) tell(is_master ? "master" : "root", &before, &opened, figures_now());
    check(kumiki.sync(world));
    check(kumiki.finalize(world));
#ifndef WITHOUT_MPI
    if (!is_master) MPI_Finalize();
#endif
    return 0;
}

/* ---- MPI_Comm_spawn ---- */

#ifndef WITHOUT_MPI
static int spawned(MPI_Comm parent)
{
    int rank, value = 0;
    struct figures after;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    if (broadcast(value) != VALUE) die("the wrong value came");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        figures_now();
        after = figures_now();
        MPI_Send(&after, sizeof after, MPI_BYTE, 0, 0, parent);
        MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_disconnect(&parent);
    return MPI_Finalize() != MPI_SUCCESS;
}

static int spawn(int *argc, char ***argv)
{
    static MPI_Comm children[MAX_GROUPS];
    static struct figures roots[MAX_GROUPS];
    MPI_Comm parent;
    int value = VALUE;
    MPI_Init(argc, argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return spawned(parent);
    int groups = atoi((*argv)[2]), size = atoi((*argv)[3]);
    char *words[] = {(*argv)[1], NULL};
    broadcast(value);
    figures_now();
    struct figures before = figures_now();
    for (int group = 0; group < groups; group++)
        MPI_Comm_spawn((*argv)[0], words, size, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[group], MPI_ERRCODES_IGNORE);
    for (int group = 0; group < groups; group++) MPI_Send(&value, 1, MPI_INT, 0, 0, children[group]);
    for (int group = 0; group < groups; group++)
        MPI_Recv(&roots[group], sizeof roots[group], MPI_BYTE, 0, 0, children[group], MPI_STATUS_IGNORE);
    tell("master", &before, NULL, figures_now());
    for (int group = 0; group < groups; group++) tell("root", NULL, NULL, roots[group]);
    for (int group = 0; group < groups; group++) MPI_Send(&value, 1, MPI_INT, 0, 0, children[group]);
    for (int group = 0; group < groups; group++) MPI_Comm_disconnect(&children[group]);
    return MPI_Finalize() != MPI_SUCCESS;
}
#endif

int main(int argc, char **argv)
{
#ifndef WITHOUT_MPI
    if (argc > 1 && strcmp(argv[1], "spawn") == 0) return spawn(&argc, &argv);
#endif
    if (argc != 5 || atoi(argv[2]) < 1 || atoi(argv[2]) > MAX_GROUPS) die("see the beginning of join.c");
    return joined(strcmp(argv[1], "master") == 0, atoi(argv[2]), atoi(argv[3]), argv[4]);
}
