/* How a program of an MPI library is asked to measure: lines on rank 0's standard input, answers on its standard output. What rma.c and array.c share;
 * `kumiki bench` puts it before their text. */
#ifndef ASK_H
#define ASK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_BYTES = 128, MAX_REPS = 100000, WARM_UPS = 2 };
static const double SAMPLE_SECONDS = 5e-3;

static int rank, ranks;
static MPI_Comm everybody = MPI_COMM_WORLD; /* of this job, or of two that have connected */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "peer: rank %d: %s: %s\n", rank, what, strerror(errno));
    MPI_Abort(everybody, 1);
    exit(1);
}

static void answer_error(const char *metric, const char *format, ...)
{
    if (rank != 0) return;
    va_list args;
    va_start(args, format);
    printf("{\"metric\":\"");
    for (const char *c = metric; *c; c++) /* what came in may be anything */
        if (*c >= ' ' && *c <= '~' && *c != '"' && *c != '\\') putchar(*c);
    printf("\",\"error\":\"");
    vprintf(format, args);
    printf("\"}\n");
    fflush(stdout);
    va_end(args);
}

static void answer(const char *metric, const char *unit, long incomplete, const double *samples, long n)
{
    if (rank != 0) return;
    printf("{\"metric\":\"%s\",\"unit\":\"%s\",", metric, unit);
    if (incomplete > 0) printf("\"incomplete\":%ld,", incomplete);
    printf("\"samples\":[");
    for (long i = 0; i < n; i++) printf("%s%.3f", i ? "," : "", samples[i]);
    printf("]}\n");
    fflush(stdout);
}

/* ---- rank 0 tells the others over a socket, so that they sleep without MPI ---- */

static int *listeners; /* rank 0: one stream to each other rank */
static int teller;     /* others: the stream from rank 0 */

static void connect_ranks(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) die("socket");
    if (rank == 0) {
        /* An address of the family alone: the kernel picks a free abstract name. */
        if (bind(s, (struct sockaddr *)&name, sizeof(sa_family_t)) != 0) die("bind");
        if (listen(s, ranks) != 0) die("listen");
        if (getsockname(s, (struct sockaddr *)&name, &length) != 0) die("getsockname");
    }
    MPI_Bcast(&name, sizeof name, MPI_BYTE, 0, everybody);
    MPI_Bcast(&length, sizeof length, MPI_BYTE, 0, everybody);
    if (rank != 0) {
        if (connect(s, (struct sockaddr *)&name, length) != 0) die("connect");
        teller = s;
        return;
    }
    listeners = calloc((size_t)ranks, sizeof *listeners);
    if (!listeners) die("out of memory");
    for (int i = 1; i < ranks; i++)
        if ((listeners[i] = accept4(s, NULL, NULL, SOCK_CLOEXEC)) < 0) die("accept");
    close(s);
}

/* The next line, on every rank; 0 at the end. */
static int next_line(char line[COMMAND_BYTES])
{
    memset(line, 0, COMMAND_BYTES);
    if (rank != 0) {
        for (size_t got = 0; got < COMMAND_BYTES;) {
            ssize_t n = read(teller, line + got, COMMAND_BYTES - got);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return 0;
            got += (size_t)n;
        }
        return line[0] != 0;
    }
    if (!fgets(line, COMMAND_BYTES, stdin)) line[0] = 0;
    for (int i = 1; i < ranks; i++)
        if (send(listeners[i], line, COMMAND_BYTES, MSG_NOSIGNAL) != COMMAND_BYTES) die("send");
    return line[0] != 0;
}

/* Whether n operations were too few for a sample; then n is more. Judged by the shortest time of one known so far, not
 * by the time of these n: else a run that something disturbed would count, and one that nothing did would not. */
static int too_few(long *n, double *best, double per_op)
{
    if (per_op < *best) *best = per_op;
    long wanted = (long)(SAMPLE_SECONDS / *best);
    if (*n >= wanted / 2) return 0;
    *n = 4 * *n < wanted ? 4 * *n : wanted;
    return 1;
}

static void greet(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int n = 0;
    MPI_Get_library_version(version, &n);
    version[strcspn(version, "\r\n")] = 0;
    for (char *c = version; *c; c++)
        if (*c == '\t') *c = ' ';
    printf("ready %s\n", version);
    fflush(stdout);
}

#endif
