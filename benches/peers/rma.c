/* Communication of an MPI library, measured on request.
 *
 *   rma         read `METRIC REPS` lines on rank 0's standard input and answer each with one line of JSON
 *   rma init    initialise, one barrier, finalise: to time start-up from outside
 *   rma port    whether this library lets separate jobs connect: one line, `port NAME` or `no WHY`
 *   rma accept FILE, rma connect FILE
 *               two jobs of one process each: the first writes the name of its port into the file, and both are ranks 0 and 1 from then on
 *   rma memory  every rank sends one word to every other; one line of JSON with what that cost each of them, in bytes:
 *               {"private":[..],"shared":[..],"page_tables":[..]} by rank. `private`: Private_Clean and Private_Dirty after it less
 *               Anonymous before MPI_Init, of mappings that are not shared; `shared`: Pss of those that are, so that their sum
 *               over all ranks has every page once; all by /proc/self/smaps
 *
 * Rank 0 first prints `ready VERSION`. While it waits for a line, every rank is blocked in read(2): other
 * contenders can be measured in between. Answers:
 *   {"metric":"put8.alloc","unit":"ns","samples":[31.2,30.9]}
 *   {"metric":"put8.alloc","error":"what went wrong"}
 *   {"metric":"put8.alloc","unit":"ns","incomplete":7,"samples":[1902.1]}
 * `incomplete`: so many times of those looked at, MPI_Win_flush returned before the value was in the target's memory.
 * The library reports completions that have not happened, and the samples are not the time of a completed put.
 *
 * Metrics (KIND is `alloc` for MPI_Win_allocate, `create` for MPI_Win_create on memory of malloc, from a page on):
 *   put8.KIND get8.KIND fadd8.KIND cas8.KIND     ns per operation + flush, rank 0 to rank 1 in a barrier
 *   putbw.KIND.BYTES getbw.KIND.BYTES            MB/s (10^6), eight operations + flush at a time
 *   putone.KIND.BYTES getone.KIND.BYTES          MB/s (10^6), one operation + flush at a time
 *   busy.put8.KIND (also get8, fadd8, cas8)      us of one operation + flush while rank 1 computes for 50 ms
 *   barrier                                      us per barrier of all ranks
 *   comm.pingpong.BYTES                          ns of half a round trip between ranks 0 and 1
 *   comm.bw.BYTES                                MB/s (10^6) from rank 0 to rank 1, eight messages at a time
 *   comm.rate.BYTES                              ns per message from rank 0 to rank 1, 64 at a time
 *   comm.bcast.BYTES comm.allreduce.BYTES        us per call of all ranks: the root goes round; a sum of doubles
 *   comm.allgather.BYTES comm.alltoall.BYTES     us per call of all ranks, so many bytes of each rank (to each rank)
 *   comm.sparse.BYTES                            us per exchange in which each rank sends so many bytes to three others: how many
 *                                                messages come is known by MPI_Reduce_scatter_block, their lengths by MPI_Probe
 *   comm.histogram.WORDS comm.gather.WORDS       ns per random update (MPI_Accumulate) or read (MPI_Get) of a table of so many
 *                                                words over all ranks, by all ranks at once
 *   comm.planes.SIDE comm.columns.SIDE           us per exchange of the ghost cells of a cube of doubles that is cut over all ranks in its
 *                                                first, or in its last dimension, and is a ring there (derived types, MPI_Isend)
 *   mem                                          private bytes of each rank after MPI_Init and one barrier
 */
#ifndef ASK_H
#include "ask.h"
#endif
#include <stddef.h>
#include <sys/file.h>
#include <sys/uio.h>

enum { TARGET = 1, PAGE = 4096, KEEP_BYTES = 16 << 20, PLACES = 16, WINDOW = 8, PROBES = 64, FLYING = 64, NEIGHBOURS = 3 };
static const double BUSY_SECONDS = 50e-3, BUSY_LEAD_SECONDS = 2e-3;
static const uint64_t SEED = 0x5eed5eed5eed5eedULL;
static const long MAX_BYTES = 64L << 20;

enum kind { ALLOC, CREATE, KINDS };
enum op { PUT, GET, FADD, CAS, OPS };
static const char *const KIND_NAME[KINDS] = {"alloc", "create"};
static const char *const OP_NAME[OPS] = {"put", "get", "fadd", "cas"};
enum pattern { PINGPONG, STREAM, RATE, BCAST, ALLREDUCE, ALLGATHER, ALLTOALL, SPARSE, HISTOGRAM, GATHER, PLANES, COLUMNS, PATTERNS };
static const char *const PATTERN_NAME[PATTERNS] = {"pingpong", "bw", "rate", "bcast", "allreduce", "allgather", "alltoall", "sparse", "histogram", "gather", "planes", "columns"};
static const char *const PATTERN_UNIT[PATTERNS] = {"ns", "MB/s", "ns", "us", "us", "us", "us", "us", "ns", "ns", "us", "us"};

/* How fast two MiB are copied depends on which physical pages they happen to have: one and the same program differs by up to
 * 10 % from start to start. So every measurement of a bandwidth between private memories takes another place in them. */
static long place_of(long bytes)
{
    static long turn;
    long step = (bytes + PAGE - 1) / PAGE * PAGE, places = KEEP_BYTES / step;
    if (places > PLACES) places = PLACES;
    return places > 1 ? turn++ % places * step : 0;
}

/* A window in a passive epoch, open from its creation to its end. */
struct window {
    MPI_Win win;
    char *base;
    long bytes; /* at the target; 0 = there is none */
    long pid;   /* the target's */
    char *there; /* the target's base, an address of that process */
};
static struct window windows[KINDS];

/* What a line asked for. */
struct request {
    char metric[COMMAND_BYTES];
    long reps;
    enum { RMA, COMM, BARRIER, MEM, QUIT, UNKNOWN } what;
    enum pattern pattern;
    enum op op;
    enum kind kind;
    long bytes;
    long flying; /* operations before each flush */
    int bulk, busy;
};

/* State of one measurement at the origin. */
struct origin {
    MPI_Win win;
    long at; /* the offset in the window */
    uint64_t *buffer;
    long words;
    long flying; /* operations before each flush */
    uint64_t count; /* operations that changed the target: also the value it must hold */
    uint64_t wrong; /* non-zero once a result was not what it had to be */
    long incomplete; /* flushes that returned before the target held the value */
    int mpi;         /* the first MPI error, or MPI_SUCCESS */
};

/* ---- small things ---- */

static void *allocate(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, PAGE, bytes < PAGE ? PAGE : bytes) != 0) die("out of memory");
    return p;
}

static void compute(double seconds)
{
    static volatile uint64_t sink;
    double end = now() + seconds;
    while (now() < end)
        for (int i = 0; i < 1000; i++) sink = sink * 6364136223846793005ULL + 1;
}

static const char *mpi_message(int code)
{
    static char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS) return "unknown MPI error";
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c == '"' || *c == '\\') *c = ' ';
    return text;
}

/* ---- what a line asks for ---- */

static int parse_operation(const char *name, struct request *r)
{
    for (int op = 0; op < OPS; op++) {
        size_t n = strlen(OP_NAME[op]);
        if (strncmp(name, OP_NAME[op], n) != 0) continue;
        r->op = (enum op)op;
        r->flying = strcmp(name + n, "bw") == 0 ? WINDOW : 1;
        r->bulk = (r->flying == WINDOW || strcmp(name + n, "one") == 0) && (op == PUT || op == GET);
        return r->bulk || strcmp(name + n, "8") == 0;
    }
    return 0;
}

static int parse_rma(const char *metric, struct request *r)
{
    char copy[COMMAND_BYTES], *rest = copy, *word;
    strcpy(copy, metric);
    r->bytes = 8;
    if (strncmp(rest, "busy.", 5) == 0) r->busy = 1, rest += 5;
    if (!(word = strsep(&rest, ".")) || !parse_operation(word, r)) return 0;
    if (!(word = strsep(&rest, "."))) return 0;
    for (r->kind = ALLOC; r->kind < KINDS; r->kind++)
        if (strcmp(word, KIND_NAME[r->kind]) == 0) break;
    if (r->kind == KINDS) return 0;
    if (r->bulk) {
        char *end = "x";
        word = strsep(&rest, ".");
        if (word && *word) r->bytes = strtol(word, &end, 10);
        if (*end || r->bytes < 16 || r->bytes > MAX_BYTES || r->bytes % 8) return 0;
    }
    return rest == NULL && !(r->bulk && r->busy);
}

static int parse_comm(const char *metric, struct request *r)
{
    for (int p = 0; p < PATTERNS; p++) {
        size_t n = strlen(PATTERN_NAME[p]);
        if (strncmp(metric, PATTERN_NAME[p], n) != 0 || metric[n] != '.') continue;
        char *end;
        r->pattern = (enum pattern)p;
        r->bytes = strtol(metric + n + 1, &end, 10);
        return *end == 0 && end != metric + n + 1 && r->bytes >= 8 && r->bytes <= MAX_BYTES && r->bytes % 8 == 0;
    }
    return 0;
}

static struct request parse(const char *line)
{
    struct request r;
    memset(&r, 0, sizeof r);
    r.what = UNKNOWN;
    int words = sscanf(line, "%127s %ld", r.metric, &r.reps);
    if (words >= 1 && strcmp(r.metric, "quit") == 0) r.what = QUIT;
    if (words != 2 || r.reps < 1 || r.reps > MAX_REPS) return r;
    if (strcmp(r.metric, "barrier") == 0) r.what = BARRIER;
    else if (strcmp(r.metric, "mem") == 0) r.what = MEM;
    else if (strncmp(r.metric, "comm.", 5) == 0) r.what = parse_comm(r.metric + 5, &r) ? COMM : UNKNOWN;
    else if (parse_rma(r.metric, &r)) r.what = RMA;
    return r;
}

/* ---- windows ---- */

static void close_window(enum kind kind)
{
    struct window *w = &windows[kind];
    if (w->bytes == 0) return;
    MPI_Win_unlock_all(w->win);
    MPI_Win_free(&w->win); /* frees the memory of MPI_Win_allocate */
    if (kind == CREATE) free(w->base);
    w->bytes = 0;
}

/* Collective. A window of at least `bytes` at the target, one page elsewhere. */
static int open_window(enum kind kind, long bytes)
{
    struct window *w = &windows[kind];
    long mine = rank == TARGET ? bytes : PAGE;
    int code;
    if (w->bytes >= bytes) return MPI_SUCCESS;
    close_window(kind);
    if (kind == ALLOC) {
        code = MPI_Win_allocate(mine, 1, MPI_INFO_NULL, everybody, &w->base, &w->win);
    } else {
        w->base = allocate((size_t)mine);
        code = MPI_Win_create(w->base, mine, 1, MPI_INFO_NULL, everybody, &w->win);
    }
    int worst = code; /* every rank must agree that there is a window */
    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, everybody);
    if (worst != MPI_SUCCESS) return worst;
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    w->bytes = bytes;
    w->there = w->base;
    w->pid = getpid();
    MPI_Bcast(&w->there, sizeof w->there, MPI_BYTE, TARGET, everybody);
    MPI_Bcast(&w->pid, 1, MPI_LONG, TARGET, everybody);
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
}

/* ---- the inner loops: n operations, completed at the target; of large ones, some at a time ---- */

static void keep(struct origin *o, int code)
{
    if (o->mpi == MPI_SUCCESS) o->mpi = code;
}

/* Whether a flush comes behind operation i of n. */
static int is_last(const struct origin *o, long i, long n)
{
    return i % o->flying == o->flying - 1 || i == n - 1;
}

static void loop_put(struct origin *o, long n)
{
    int bytes = (int)(8 * o->words);
    uint64_t *first = o->buffer, *last = o->buffer + o->words - 1;
    for (long i = 0; i < n; i++) {
        if (i % o->flying == 0) *first = *last = ++o->count;
        keep(o, o->words == 1 ? MPI_Put(first, 1, MPI_UINT64_T, TARGET, o->at, 1, MPI_UINT64_T, o->win)
                              : MPI_Put(first, bytes, MPI_BYTE, TARGET, o->at, bytes, MPI_BYTE, o->win));
        if (is_last(o, i, n)) keep(o, MPI_Win_flush(TARGET, o->win));
    }
}

static void loop_get(struct origin *o, long n)
{
    int bytes = (int)(8 * o->words);
    uint64_t *first = o->buffer, *last = o->buffer + o->words - 1;
    for (long i = 0; i < n; i++) {
        if (i % o->flying == 0) *first = *last = 0;
        keep(o, o->words == 1 ? MPI_Get(first, 1, MPI_UINT64_T, TARGET, o->at, 1, MPI_UINT64_T, o->win)
                              : MPI_Get(first, bytes, MPI_BYTE, TARGET, o->at, bytes, MPI_BYTE, o->win));
        if (!is_last(o, i, n)) continue;
        keep(o, MPI_Win_flush(TARGET, o->win));
        o->wrong |= (*first ^ SEED) | (*last ^ SEED);
    }
}

static void loop_fadd(struct origin *o, long n)
{
    uint64_t one = 1, old;
    for (long i = 0; i < n; i++) {
        old = ~o->count;
        keep(o, MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, TARGET, o->at, MPI_SUM, o->win));
        keep(o, MPI_Win_flush(TARGET, o->win));
        o->wrong |= old ^ o->count++;
    }
}

static void loop_cas(struct origin *o, long n)
{
    uint64_t expected, desired, old;
    for (long i = 0; i < n; i++) {
        expected = o->count, desired = o->count + 1, old = ~o->count;
        keep(o, MPI_Compare_and_swap(&desired, &expected, &old, MPI_UINT64_T, TARGET, o->at, o->win));
        keep(o, MPI_Win_flush(TARGET, o->win));
        o->wrong |= old ^ o->count++;
    }
}

typedef void loop_fn(struct origin *, long);
static loop_fn *const LOOP[OPS] = {loop_put, loop_get, loop_fadd, loop_cas};

static double timed(loop_fn *loop, struct origin *o, long n)
{
    double start = now();
    loop(o, n);
    return now() - start;
}

/* ---- measurements of one-sided operations ---- */

/* Called right after a flush: is what was put in the target's memory? Looks there without MPI. */
static void check_completion(const struct request *r, const struct window *w, struct origin *o)
{
    uint64_t first = 0, last = 0;
    struct iovec here[2] = {{&first, 8}, {&last, 8}};
    struct iovec there[2] = {{w->there + o->at, 8}, {w->there + o->at + r->bytes - 8, 8}};
    if (r->op == GET) return;
    if (process_vm_readv((pid_t)w->pid, here, 2, there, 2, 0) != 16) return; /* not permitted: cannot tell */
    o->incomplete += first != o->count || last != o->count;
}

static void sample_waiting(const struct request *r, const struct window *w, struct origin *o, double *samples)
{
    loop_fn *loop = LOOP[r->op];
    long n = 1;
    double best = SAMPLE_SECONDS;
    for (long i = -WARM_UPS; i < r->reps;) {
        double per_op = timed(loop, o, n) / (double)n;
        check_completion(r, w, o);
        if (too_few(&n, &best, per_op)) continue;
        if (i >= 0) samples[i] = r->bulk ? (double)r->bytes / per_op / 1e6 : per_op * 1e9;
        i++;
    }
    for (int i = 0; i < PROBES && !r->bulk; i++) { /* not timed: look after each flush */
        loop(o, 1);
        check_completion(r, w, o);
    }
}

/* All ranks: the target computes and calls nothing while the origin does one operation. */
static void sample_busy(const struct request *r, const struct window *w, struct origin *o, double *samples)
{
    const struct timespec lead = {0, (long)(BUSY_LEAD_SECONDS * 1e9)};
    for (long i = -1; i < r->reps; i++) { /* the first connects and warms up */
        MPI_Barrier(everybody);
        if (rank == TARGET) {
            compute(BUSY_SECONDS);
        } else if (rank == 0) {
            nanosleep(&lead, NULL); /* let the target leave the barrier */
            double t = timed(LOOP[r->op], o, 1);
            if (i >= 0) {
                check_completion(r, w, o);
                samples[i] = t * 1e6;
            }
        }
        MPI_Barrier(everybody);
    }
}

static void prepare_target(const struct request *r, struct window *w, long at)
{
    if (rank == TARGET) {
        uint64_t *word = (uint64_t *)(w->base + at);
        for (long i = 0; i < r->bytes / 8; i++) word[i] = r->op == GET ? SEED : 0;
        MPI_Win_sync(w->win);
    }
    MPI_Barrier(everybody);
}

/* Whether the target holds what the origin believes; known at every rank. */
static int target_is_right(const struct request *r, struct window *w, long at, uint64_t count)
{
    int right = 1;
    MPI_Bcast(&count, 1, MPI_UINT64_T, 0, everybody);
    if (rank == TARGET) {
        MPI_Win_sync(w->win);
        uint64_t want = r->op == GET ? SEED : count;
        volatile uint64_t *word = (volatile uint64_t *)(w->base + at);
        right = word[0] == want && word[r->bytes / 8 - 1] == want;
    }
    MPI_Bcast(&right, 1, MPI_INT, TARGET, everybody);
    return right;
}

static void measure_rma(const struct request *r)
{
    if (ranks < 2) {
        answer_error(r->metric, "needs at least 2 ranks");
        return;
    }
    static char *memory; /* the origin's, for up to KEEP_BYTES */
    long least = r->kind == CREATE ? KEEP_BYTES : PAGE, at = r->bulk && r->kind == CREATE ? place_of(r->bytes) : 0;
    int code = open_window(r->kind, r->bytes < least ? least : r->bytes);
    if (code != MPI_SUCCESS) {
        answer_error(r->metric, "no window: %s", mpi_message(code));
        return;
    }
    struct window *w = &windows[r->kind];
    struct origin o = {.win = w->win, .at = at, .words = r->bytes / 8, .flying = r->flying, .mpi = MPI_SUCCESS};
    double *samples = calloc((size_t)r->reps, sizeof *samples);
    if (!samples) die("out of memory");
    if (rank == 0) {
        if (!memory) memory = allocate(KEEP_BYTES);
        o.buffer = (uint64_t *)(r->bytes > KEEP_BYTES ? allocate((size_t)r->bytes) : memory + at);
        memset(o.buffer, 1, (size_t)r->bytes);
    }
    prepare_target(r, w, at);
    if (r->busy) sample_busy(r, w, &o, samples);
    else if (rank == 0) sample_waiting(r, w, &o, samples);
    MPI_Barrier(everybody); /* where the others wait, and drive their library */
    int right = target_is_right(r, w, at, o.count);
    if (o.mpi != MPI_SUCCESS) answer_error(r->metric, "%s", mpi_message(o.mpi));
    else if (o.wrong) answer_error(r->metric, "an operation returned a wrong value");
    else if (!right) answer_error(r->metric, "the target does not hold what was written");
    else answer(r->metric, r->busy ? "us" : r->bulk ? "MB/s" : "ns", o.incomplete, samples, r->reps);
    if (r->bytes > KEEP_BYTES) free(o.buffer);
    free(samples);
    if (w->bytes > KEEP_BYTES) close_window(r->kind);
}

/* ---- two sides and all ranks: everybody does n operations, and rank 0's clock decides ---- */

struct pair {
    char *from, *to;
    long bytes; /* of each message */
    long wrong;
    MPI_Win win;
    uint64_t state; /* of the random places */
    MPI_Datatype faces[4]; /* ghosts below, own cells below, own cells above, ghosts above */
    long ghost[2];         /* one of each side */
};

static void pingpong(struct pair *p, long n)
{
    int bytes = (int)p->bytes;
    for (long i = 0; i < n && rank < 2; i++) {
        if (rank == 0) *(volatile long *)p->from = i;
        if (rank == 0) MPI_Send(p->from, bytes, MPI_BYTE, 1, 0, everybody);
        MPI_Recv(p->to, bytes, MPI_BYTE, 1 - rank, 0, everybody, MPI_STATUS_IGNORE);
        p->wrong += *(volatile long *)p->to != i;
        if (rank == 1) *(volatile long *)p->from = i;
        if (rank == 1) MPI_Send(p->from, bytes, MPI_BYTE, 0, 0, everybody);
    }
}

/* Messages one way, `flying` at a time; a word back when all of those have come. */
static void one_way(struct pair *p, long n, long flying)
{
    MPI_Request requests[FLYING];
    MPI_Status statuses[FLYING];
    int bytes = (int)p->bytes;
    long places = KEEP_BYTES / p->bytes;
    for (long done = 0; done < n && rank < 2; done += flying) {
        long now_flying = n - done < flying ? n - done : flying;
        for (long i = 0; i < now_flying; i++) {
            long at = places > 1 ? i % places * p->bytes : 0;
            if (rank == 0) MPI_Isend(p->from + at, bytes, MPI_BYTE, 1, 0, everybody, &requests[i]);
            else MPI_Irecv(p->to + at, bytes, MPI_BYTE, 0, 0, everybody, &requests[i]);
        }
        MPI_Waitall((int)now_flying, requests, statuses);
        if (rank == 1) MPI_Send(p->from, 0, MPI_BYTE, 0, 1, everybody);
        else MPI_Recv(p->to, 0, MPI_BYTE, 1, 1, everybody, MPI_STATUS_IGNORE);
    }
}

static void collective(struct pair *p, enum pattern pattern, long n)
{
    int bytes = (int)p->bytes, words = bytes / 8;
    for (long i = 0; i < n; i++) {
        if (pattern == BCAST) MPI_Bcast(p->from, bytes, MPI_BYTE, (int)(i % ranks), everybody);
        else if (pattern == ALLREDUCE) MPI_Allreduce(p->from, p->to, words, MPI_DOUBLE, MPI_SUM, everybody);
        else if (pattern == ALLGATHER) MPI_Allgather(p->from, bytes, MPI_BYTE, p->to, bytes, MPI_BYTE, everybody);
        else MPI_Alltoall(p->from, bytes, MPI_BYTE, p->to, bytes, MPI_BYTE, everybody);
    }
}

/* Who receives from whom is known to those who send only. */
static void sparse(struct pair *p, long n)
{
    int bytes = (int)p->bytes, few = ranks - 1 < NEIGHBOURS ? ranks - 1 : NEIGHBOURS, due, got;
    int to[NEIGHBOURS], *counts = calloc((size_t)ranks, sizeof *counts);
    MPI_Request requests[NEIGHBOURS];
    MPI_Status status;
    if (!counts) die("out of memory");
    for (long i = 0; i < n; i++) {
        p->state ^= p->state << 13, p->state ^= p->state >> 7, p->state ^= p->state << 17;
        memset(counts, 0, (size_t)ranks * sizeof *counts);
        for (int j = 0; j < few; j++) {
            to[j] = (int)((uint64_t)rank + 1 + (p->state + (uint64_t)j) % (uint64_t)(ranks - 1)) % ranks;
            counts[to[j]] = 1;
        }
        *(volatile long *)p->from = rank;
        MPI_Reduce_scatter_block(counts, &due, 1, MPI_INT, MPI_SUM, everybody);
        for (int j = 0; j < few; j++) MPI_Isend(p->from, bytes, MPI_BYTE, to[j], (int)(i & 1), everybody, &requests[j]);
        for (int j = 0; j < due; j++) {
            char *place = p->to + j * p->bytes;
            MPI_Probe(MPI_ANY_SOURCE, (int)(i & 1), everybody, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            if (got != bytes) die("a message of another length");
            MPI_Recv(place, got, MPI_BYTE, status.MPI_SOURCE, (int)(i & 1), everybody, MPI_STATUS_IGNORE);
            p->wrong += *(volatile long *)place != status.MPI_SOURCE;
        }
        MPI_Waitall(few, requests, MPI_STATUSES_IGNORE);
    }
    free(counts);
}

/* The table is on all ranks; `bytes` is its number of words. */
static void words_at_random(struct pair *p, enum pattern pattern, long n)
{
    const uint64_t one = 1;
    uint64_t *got = (uint64_t *)p->to;
    long share = p->bytes / ranks, kept = KEEP_BYTES / 8;
    for (long i = 0; i < n; i++) {
        p->state ^= p->state << 13, p->state ^= p->state >> 7, p->state ^= p->state << 17;
        long place = (long)(p->state % (uint64_t)(share * ranks));
        MPI_Aint at = place % share * 8;
        if (pattern == HISTOGRAM) MPI_Accumulate(&one, 1, MPI_UINT64_T, (int)(place / share), at, 1, MPI_UINT64_T, MPI_SUM, p->win);
        else MPI_Get(&got[i % kept], 1, MPI_UINT64_T, (int)(place / share), at, 1, MPI_UINT64_T, p->win);
        if (i % 4096 == 4095) MPI_Win_flush_all(p->win);
    }
    MPI_Win_flush_all(p->win);
    MPI_Barrier(everybody);
}

/* A cube of `side` doubles each way, of which a rank has a part, with ghost cells around it: gives its doubles. */
static long make_faces(struct pair *p, int cut, long side)
{
    int extents[3] = {(int)side, (int)side, (int)side}, padded[3], sub[3];
    extents[cut] /= ranks;
    long all = 1;
    for (int d = 0; d < 3; d++) padded[d] = extents[d] + 2, sub[d] = d == cut ? 1 : extents[d], all *= padded[d];
    for (int face = 0; face < 4; face++) {
        int start[3] = {1, 1, 1};
        start[cut] = face < 2 ? face : extents[cut] + face - 2;
        MPI_Type_create_subarray(3, padded, sub, start, MPI_ORDER_C, MPI_DOUBLE, &p->faces[face]);
        MPI_Type_commit(&p->faces[face]);
        if (face % 3 == 0) p->ghost[face / 3] = ((long)start[0] * padded[1] + start[1]) * padded[2] + start[2];
    }
    return all;
}

static void exchange_faces(struct pair *p, long n)
{
    int below = (rank + ranks - 1) % ranks, above = (rank + 1) % ranks;
    double *field = (double *)p->from;
    MPI_Request requests[4];
    for (long i = 0; i < n; i++) {
        MPI_Irecv(field, 1, p->faces[0], below, 0, everybody, &requests[0]);
        MPI_Irecv(field, 1, p->faces[3], above, 1, everybody, &requests[1]);
        MPI_Isend(field, 1, p->faces[2], above, 0, everybody, &requests[2]);
        MPI_Isend(field, 1, p->faces[1], below, 1, everybody, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    p->wrong += field[p->ghost[0]] != below || field[p->ghost[1]] != above;
}

static double patterns(struct pair *p, enum pattern pattern, long n)
{
    MPI_Barrier(everybody);
    double start = now();
    if (pattern == PINGPONG) pingpong(p, n);
    else if (pattern == STREAM || pattern == RATE) one_way(p, n, pattern == STREAM ? WINDOW : FLYING);
    else if (pattern == HISTOGRAM || pattern == GATHER) words_at_random(p, pattern, n);
    else if (pattern == PLANES || pattern == COLUMNS) exchange_faces(p, n);
    else if (pattern == SPARSE) sparse(p, n);
    else collective(p, pattern, n);
    double t = now() - start;
    MPI_Bcast(&t, 1, MPI_DOUBLE, 0, everybody);
    return t;
}

static void measure_comm(const struct request *r)
{
    enum pattern pattern = r->pattern;
    int over_table = pattern == HISTOGRAM || pattern == GATHER;
    long each = over_table ? KEEP_BYTES : r->bytes * (pattern == ALLGATHER || pattern == ALLTOALL || pattern == SPARSE ? ranks : 1);
    if (ranks < 2 || (over_table && r->bytes < ranks)) {
        answer_error(r->metric, "needs at least 2 ranks, and as many words");
        return;
    }
    struct pair p = {.bytes = r->bytes, .state = 0x9e3779b97f4a7c15ULL + (uint64_t)rank};
    void *table = NULL;
    int has_faces = pattern == PLANES || pattern == COLUMNS;
    if (has_faces) each = 8 * make_faces(&p, pattern == PLANES ? 0 : 2, r->bytes);
    if (each < KEEP_BYTES) each = KEEP_BYTES;
    p.from = allocate((size_t)each), p.to = allocate((size_t)each);
    memset(p.from, 0, (size_t)each), memset(p.to, 0, (size_t)each);
    for (long i = 0; has_faces && i < each / 8; i++) ((double *)p.from)[i] = rank;
    if (over_table) {
        long share = r->bytes / ranks * 8;
        MPI_Win_allocate(share, 1, MPI_INFO_NULL, everybody, &table, &p.win);
        memset(table, 0, (size_t)share);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, p.win);
    }
    long n = 1;
    double best = SAMPLE_SECONDS, *samples = calloc((size_t)r->reps, sizeof *samples);
    if (!samples) die("out of memory");
    for (long i = -WARM_UPS; i < r->reps;) {
        double per_op = patterns(&p, pattern, n) / (double)n;
        if (too_few(&n, &best, per_op)) continue;
        double us = per_op * 1e6;
        if (i >= 0) samples[i] = pattern == STREAM ? (double)r->bytes / us : pattern == PINGPONG ? us * 500 : PATTERN_UNIT[pattern][0] == 'n' ? us * 1e3 : us;
        i++;
    }
    if (over_table) {
        MPI_Win_unlock_all(p.win);
        MPI_Win_free(&p.win);
    }
    long wrong = 0;
    MPI_Allreduce(&p.wrong, &wrong, 1, MPI_LONG, MPI_SUM, everybody);
    if (wrong) answer_error(r->metric, "a message was wrong");
    else answer(r->metric, PATTERN_UNIT[pattern], 0, samples, r->reps);
    for (int face = 0; has_faces && face < 4; face++) MPI_Type_free(&p.faces[face]);
    free(samples), free(p.from), free(p.to);
}

/* ---- barrier and memory ---- */

static double barriers(long n)
{
    MPI_Barrier(everybody);
    double start = now();
    for (long i = 0; i < n; i++) MPI_Barrier(everybody);
    double t = now() - start;
    MPI_Bcast(&t, 1, MPI_DOUBLE, 0, everybody); /* rank 0's clock decides for all */
    return t;
}

static void measure_barrier(const struct request *r)
{
    long n = 1, i = 0;
    double best = SAMPLE_SECONDS, *samples = calloc((size_t)r->reps, sizeof *samples);
    if (!samples) die("out of memory");
    while (i < r->reps) {
        double per_op = barriers(n) / (double)n;
        if (!too_few(&n, &best, per_op)) samples[i++] = per_op * 1e6;
    }
    answer(r->metric, "us", 0, samples, r->reps);
    free(samples);
}

static long private_bytes(void)
{
    char line[256];
    long total = -1, kib;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    if (!f) return -1;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Clean: %ld", &kib) == 1 || sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            total = (total < 0 ? 0 : total) + 1024 * kib;
    fclose(f);
    return total;
}

static void measure_memory(const struct request *r, long mine)
{
    double value = (double)mine, *samples = calloc((size_t)ranks, sizeof *samples);
    if (!samples) die("out of memory");
    MPI_Gather(&value, 1, MPI_DOUBLE, samples, 1, MPI_DOUBLE, 0, everybody);
    int known = 1;
    for (int i = 0; i < ranks; i++) known &= samples[i] >= 0;
    if (known) answer(r->metric, "bytes", 0, samples, ranks);
    else answer_error(r->metric, "cannot read smaps_rollup");
    free(samples);
}

/* ---- one message from every rank to every other ---- */

enum { CROWD = 4096 };

/* What the kernel counts for this process, in bytes. */
struct figures { long private, anonymous, shared, page_tables; };

static struct figures figures_now(void)
{
    char line[512], modes[8];
    long kib;
    int is_shared = 0;
    struct figures sum = {0, 0, 0, 0};
    FILE *f = fopen("/proc/self/smaps", "r");
    if (!f) die("/proc/self/smaps");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*[0-9a-f]-%*[0-9a-f] %7s", modes) == 1) is_shared = strchr(modes, 's') != NULL;
        else if (is_shared) { if (sscanf(line, "Pss: %ld", &kib) == 1) sum.shared += 1024 * kib; }
        else if (sscanf(line, "Private_Clean: %ld", &kib) == 1 || sscanf(line, "Private_Dirty: %ld", &kib) == 1) sum.private += 1024 * kib;
        else if (sscanf(line, "Anonymous: %ld", &kib) == 1) sum.anonymous += 1024 * kib;
    }
    fclose(f);
    f = fopen("/proc/self/status", "r");
    if (!f) die("/proc/self/status");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmPTE: %ld", &kib) == 1) sum.page_tables = 1024 * kib;
    fclose(f);
    return sum;
}

/* Where the program itself keeps things: touched before anything is measured. */
static MPI_Request requests[2 * CROWD];
static uint64_t words[CROWD], sent;
static long gathered[CROWD];

static void print_gathered(const char *name, long mine, const char *before, const char *after)
{
    MPI_Gather(&mine, 1, MPI_LONG, gathered, 1, MPI_LONG, 0, everybody);
    if (rank != 0) return;
    printf("%s\"%s\":[", before, name);
    for (int i = 0; i < ranks; i++) printf("%s%ld", i ? "," : "", gathered[i]);
    printf("]%s", after);
}

static int crowd(int *argc, char ***argv)
{
    memset(requests, 1, sizeof requests);
    memset(words, 1, sizeof words);
    memset(gathered, 1, sizeof gathered);
    figures_now(); /* the first reading touches what reading touches */
    struct figures before = figures_now();
    MPI_Init(argc, argv);
    MPI_Comm_rank(everybody, &rank);
    MPI_Comm_size(everybody, &ranks);
    if (ranks > CROWD) die("too many ranks");
    int n = 0;
    sent = (uint64_t)rank;
    for (int i = 1; i < ranks; i++) {
        int from = (rank + ranks - i) % ranks;
        MPI_Irecv(&words[from], 1, MPI_UINT64_T, from, 7, everybody, &requests[n++]);
    }
    for (int i = 1; i < ranks; i++)
        MPI_Isend(&sent, 1, MPI_UINT64_T, (rank + i) % ranks, 7, everybody, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ranks; i++)
        if (i != rank && words[i] != (uint64_t)i) die("a message was wrong");
    MPI_Barrier(everybody);
    /* One after the other: a process that reads its mappings holds up those that change theirs. */
    int turn = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (turn < 0 || flock(turn, LOCK_EX) != 0) die("cannot wait for my turn");
    struct figures after = figures_now();
    flock(turn, LOCK_UN);
    print_gathered("private", after.private - before.anonymous, "{", ",");
    print_gathered("shared", after.shared, "", ",");
    print_gathered("page_tables", after.page_tables - before.page_tables, "", "}\n");
    fflush(stdout);
    return MPI_Finalize() != MPI_SUCCESS;
}

/* ---- */

static void serve(long memory)
{
    char line[COMMAND_BYTES];
    while (next_line(line)) {
        struct request r = parse(line);
        if (r.what == QUIT) break;
        if (r.what == RMA) measure_rma(&r);
        else if (r.what == COMM) measure_comm(&r);
        else if (r.what == BARRIER) measure_barrier(&r);
        else if (r.what == MEM) measure_memory(&r, memory);
        else if (r.metric[0]) answer_error(r.metric, "not `METRIC REPS` with a metric known here");
        else answer_error("", "empty line");
    }
    for (int k = 0; k < KINDS; k++) close_window((enum kind)k);
}

/* ---- two jobs that connect ---- */

static int tell_port(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Open_port(MPI_INFO_NULL, port);
    printf("%s %s\n", code == MPI_SUCCESS ? "port" : "no", code == MPI_SUCCESS ? port : mpi_message(code));
    fflush(stdout);
    if (code == MPI_SUCCESS) MPI_Close_port(port);
    return MPI_Finalize() != MPI_SUCCESS;
}

/* Makes one communicator of the processes of two jobs. The file with the name of the port is there when the second is started. */
static void join_jobs(int accepts, const char *path)
{
    char port[MPI_MAX_PORT_NAME] = "", fresh[4096];
    MPI_Comm between;
    if (accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        snprintf(fresh, sizeof fresh, "%s.new", path);
        FILE *f = fopen(fresh, "w");
        if (!f || fputs(port, f) < 0 || fclose(f) != 0 || rename(fresh, path) != 0) die(path);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between);
        unlink(path);
    } else {
        FILE *f = fopen(path, "r");
        if (!f || !fgets(port, sizeof port, f)) die(path);
        fclose(f);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &between);
    }
    MPI_Intercomm_merge(between, !accepts, &everybody);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "memory") == 0) return crowd(&argc, &argv);
    MPI_Init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "port") == 0) return tell_port();
    if (argc > 2) join_jobs(strcmp(argv[1], "accept") == 0, argv[2]);
    MPI_Barrier(everybody);
    if (argc > 1 && strcmp(argv[1], "init") == 0) return MPI_Finalize() != MPI_SUCCESS;
    long memory = private_bytes();
    MPI_Comm_set_errhandler(everybody, MPI_ERRORS_RETURN);
    MPI_Comm_rank(everybody, &rank);
    MPI_Comm_size(everybody, &ranks);
    connect_ranks();
    if (rank == 0) greet();
    serve(memory);
    return MPI_Finalize() != MPI_SUCCESS;
}
