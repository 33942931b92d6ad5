/* Messages of ZeroMQ between two processes, measured on request, as rma.c measures those of MPI.
 *
 *   zmq first ENDPOINT     binds; reads `METRIC REPS` lines from standard input and answers each with one line of JSON
 *   zmq second ENDPOINT    connects, and does what the first one says, until it hears nothing more
 *
 * Metrics, between two PAIR sockets (one thread for input and output each, as it is without being told otherwise; no copies of what is sent):
 *   comm.pingpong.BYTES    ns of half a round trip
 *   comm.bw.BYTES          MB/s (10^6) one way, eight messages at a time
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { WINDOW = 8, WARM_UPS = 2, MAX_REPS = 1000 };
static const double SAMPLE_SECONDS = 5e-3;
static const long MAX_BYTES = 64L << 20;

/* What the first one wants next; `count` 0 ends it all. */
struct order { long bytes, count, streams; };

static void *line;
static char *memory;

static void die(const char *what)
{
    fprintf(stderr, "zmq: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep(void *data, void *hint)
{
    (void)data, (void)hint;
}

static void put(long bytes)
{
    zmq_msg_t message;
    zmq_msg_init_data(&message, memory, (size_t)bytes, keep, NULL);
    if (zmq_msg_send(&message, line, 0) != bytes) die("send");
}

static void take(long bytes)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, line, 0) != bytes) die("receive");
    memcpy(memory + MAX_BYTES, zmq_msg_data(&message), (size_t)bytes);
    zmq_msg_close(&message);
}

static void work(int is_first, const struct order *o)
{
    for (long i = 0; !o->streams && i < o->count; i++) {
        if (is_first) put(o->bytes);
        take(o->bytes);
        if (!is_first) put(o->bytes);
    }
    for (long done = 0; o->streams && done < o->count; done += WINDOW) {
        for (long i = done; i < o->count && i < done + WINDOW; i++) {
            if (is_first) put(o->bytes);
            else take(o->bytes);
        }
        if (is_first) take(8);
        else put(8);
    }
}

static double timed(const struct order *o)
{
    if (zmq_send(line, o, sizeof *o, 0) != (int)sizeof *o) die("send");
    double start = now();
    work(1, o);
    return now() - start;
}

static void measure(const char *metric, long reps)
{
    struct order o = {0, 1, 0};
    double best = SAMPLE_SECONDS;
    o.streams = sscanf(metric, "comm.bw.%ld", &o.bytes) == 1;
    if ((!o.streams && sscanf(metric, "comm.pingpong.%ld", &o.bytes) != 1) || o.bytes < 8 || o.bytes > MAX_BYTES || reps < 1 || reps > MAX_REPS) {
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
    int major, minor, patch, linger = 0;
    struct order o;
    if (argc != 3) return 2;
    int is_first = strcmp(argv[1], "first") == 0;
    void *context = zmq_ctx_new();
    memory = malloc(2 * (size_t)MAX_BYTES);
    if (!context || !memory || !(line = zmq_socket(context, ZMQ_PAIR))) die("no socket");
    memset(memory, 1, 2 * (size_t)MAX_BYTES);
    zmq_setsockopt(line, ZMQ_LINGER, &linger, sizeof linger);
    if ((is_first ? zmq_bind(line, argv[2]) : zmq_connect(line, argv[2])) != 0) die(argv[2]);
    if (!is_first) {
        while (zmq_recv(line, &o, sizeof o, 0) == (int)sizeof o && o.count > 0) work(0, &o);
        return 0;
    }
    zmq_version(&major, &minor, &patch);
    printf("ready ZeroMQ %d.%d.%d\n", major, minor, patch);
    fflush(stdout);
    while (fgets(text, sizeof text, stdin) && sscanf(text, "%127s %ld", metric, &reps) == 2) {
        measure(metric, reps);
        fflush(stdout);
    }
    memset(&o, 0, sizeof o);
    linger = 1000;
    zmq_setsockopt(line, ZMQ_LINGER, &linger, sizeof linger);
    zmq_send(line, &o, sizeof o, ZMQ_DONTWAIT);
    zmq_close(line);
    zmq_ctx_term(context);
    if (strncmp(argv[2], "ipc://", 6) == 0) unlink(argv[2] + 6);
    return 0;
}
