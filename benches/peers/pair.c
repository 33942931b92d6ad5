/* Messages between two processes, measured on request, as rma.c measures those of MPI: of ZeroMQ, and of our own WaitIO (compile with -DWAITIO).
 *
 *   pair first ENDPOINT    binds; reads `METRIC REPS` lines from standard input and answers each with one line of JSON
 *   pair second ENDPOINT   connects, and does what the first one says, until it hears nothing more
 *   pair LIBRARY           with WaitIO: the environment says which one this is (WAITIO_PBID), and the library is loaded from there
 *
 * Metrics (ZeroMQ: two PAIR sockets, one thread for input and output each, as it is without being told otherwise; no copies of what is sent):
 *   comm.pingpong.BYTES    ns of half a round trip
 *   comm.bw.BYTES          MB/s (10^6) one way, eight messages at a time
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 8, WARM_UPS = 2, MAX_REPS = 1000 };
static const double SAMPLE_SECONDS = 5e-3;
static const long MAX_BYTES = 64L << 20;

/* What the first one wants next; `count` 0 ends it all. */
struct order { long bytes, count, streams; };

static int is_first;
static char *memory; /* what is sent, and behind it what comes */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "pair: %s: %s\n", what, why);
    exit(1);
}

#ifdef WAITIO
#include <dlfcn.h>

struct request { unsigned long words[11]; };

static struct {
    int (*universe)(void **);
    int (*isend)(void *, int, char *, size_t, unsigned long, struct request *);
    int (*irecv)(void *, int, char *, size_t, unsigned long, struct request *);
    int (*waitall)(int, struct request *);
    int (*finalize)(void);
    const char *(*why)(void);
} waitio;
static void *all;

static void check(int status)
{
    if (status != 0) die("WaitIO", waitio.why());
}

static void put(void *from, long bytes, int count)
{
    struct request requests[WINDOW];
    for (int i = 0; i < count; i++) check(waitio.isend(all, is_first, from, (size_t)bytes, 1, &requests[i]));
    check(waitio.waitall(count, requests));
}

static void take(void *into, long bytes, int count)
{
    struct request requests[WINDOW];
    for (int i = 0; i < count; i++) check(waitio.irecv(all, is_first, into, (size_t)bytes, 1, &requests[i]));
    check(waitio.waitall(count, requests));
}

/* A core of its own, if there are two: only now, for a program that has one only thinks that the machine has no more. */
static void stay_on_a_core(void)
{
    cpu_set_t allowed, one;
    int skip = !is_first;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static const char *open_line(int argc, char **argv)
{
    const char *block = getenv("WAITIO_PBID");
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library || !block) die("cannot load the library", argc == 2 ? dlerror() : "its name is missing");
    is_first = strcmp(block, "0") == 0;
    *(void **)&waitio.universe = dlsym(library, "waitio_create_universe");
    *(void **)&waitio.isend = dlsym(library, "waitio_isend");
    *(void **)&waitio.irecv = dlsym(library, "waitio_irecv");
    *(void **)&waitio.waitall = dlsym(library, "waitio_waitall");
    *(void **)&waitio.finalize = dlsym(library, "waitio_finalize");
    *(void **)&waitio.why = dlsym(library, "waitio_error");
    check(waitio.universe(&all));
    stay_on_a_core();
    return "WaitIO";
}

static void close_line(void)
{
    check(waitio.finalize());
}
#else
#include <zmq.h>

static void *context, *line;
static const char *path;

static void check(int holds)
{
    if (!holds) die("ZeroMQ", zmq_strerror(zmq_errno()));
}

static void keep(void *data, void *hint)
{
    (void)data, (void)hint;
}

static void put(void *from, long bytes, int count)
{
    zmq_msg_t message;
    for (int i = 0; i < count; i++) {
        zmq_msg_init_data(&message, from, (size_t)bytes, keep, NULL);
        check(zmq_msg_send(&message, line, 0) == bytes);
    }
}

static void take(void *into, long bytes, int count)
{
    zmq_msg_t message;
    for (int i = 0; i < count; i++) {
        zmq_msg_init(&message);
        check(zmq_msg_recv(&message, line, 0) == bytes);
        memcpy(into, zmq_msg_data(&message), (size_t)bytes);
        zmq_msg_close(&message);
    }
}

static const char *open_line(int argc, char **argv)
{
    static char version[32];
    int major, minor, patch, linger = 1000;
    if (argc != 3) die("usage", "pair first|second ENDPOINT");
    is_first = strcmp(argv[1], "first") == 0;
    path = argv[2];
    check((context = zmq_ctx_new()) && (line = zmq_socket(context, ZMQ_PAIR)));
    zmq_setsockopt(line, ZMQ_LINGER, &linger, sizeof linger);
    check((is_first ? zmq_bind(line, path) : zmq_connect(line, path)) == 0);
    zmq_version(&major, &minor, &patch);
    snprintf(version, sizeof version, "ZeroMQ %d.%d.%d", major, minor, patch);
    return version;
}

static void close_line(void)
{
    zmq_close(line);
    zmq_ctx_term(context);
    if (is_first && strncmp(path, "ipc://", 6) == 0) unlink(path + 6);
}
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(const struct order *o)
{
    char *came = memory + MAX_BYTES;
    for (long i = 0; !o->streams && i < o->count; i++) {
        if (is_first) put(memory, o->bytes, 1);
        take(came, o->bytes, 1);
        if (!is_first) put(memory, o->bytes, 1);
    }
    for (long done = 0; o->streams && done < o->count; done += WINDOW) {
        int few = o->count - done < WINDOW ? (int)(o->count - done) : WINDOW;
        if (is_first) put(memory, o->bytes, few);
        else take(came, o->bytes, few);
        if (is_first) take(came, 8, 1);
        else put(memory, 8, 1);
    }
}

static double timed(struct order *o)
{
    put(o, sizeof *o, 1);
    double start = now();
    work(o);
    return now() - start;
}

static void measure(const char *metric, long reps)
{
    struct order o = {0, 1, 0};
    double best = SAMPLE_SECONDS;
    o.streams = sscanf(metric, "comm.bw.%ld", &o.bytes) == 1;
    int is_known = o.streams || sscanf(metric, "comm.pingpong.%ld", &o.bytes) == 1;
    if (!is_known || o.bytes < 8 || o.bytes > MAX_BYTES || reps < 1 || reps > MAX_REPS) {
        printf("{\"metric\":\"%s\",\"error\":\"not a metric known here\"}\n", metric);
        return;
    }
    printf("{\"metric\":\"%s\",\"unit\":\"%s\",\"samples\":[", metric, o.streams ? "MB/s" : "ns");
    for (long i = -WARM_UPS; i < reps;) {
        double each = timed(&o) / (double)o.count;
        if (each < best) best = each;
        long wanted = (long)(SAMPLE_SECONDS / best);
        if (o.count < wanted / 2) { /* too few for a sample */
            o.count = 4 * o.count < wanted ? 4 * o.count : wanted;
            continue;
        }
        if (i >= 0) printf("%s%.3f", i ? "," : "", o.streams ? (double)o.bytes / each / 1e6 : each * 5e8);
        i++;
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    char metric[128], text[256];
    long reps;
    struct order o;
    if (!(memory = malloc(2 * (size_t)MAX_BYTES))) die("memory", "there is too little");
    memset(memory, 1, 2 * (size_t)MAX_BYTES);
    const char *version = open_line(argc, argv);
    if (is_first) {
        printf("ready %s\n", version);
        fflush(stdout);
        while (fgets(text, sizeof text, stdin) && sscanf(text, "%127s %ld", metric, &reps) == 2) {
            measure(metric, reps);
            fflush(stdout);
        }
        memset(&o, 0, sizeof o);
        put(&o, sizeof o, 1);
    } else {
        for (take(&o, sizeof o, 1); o.count > 0; take(&o, sizeof o, 1)) work(&o);
    }
    close_line();
    return 0;
}
