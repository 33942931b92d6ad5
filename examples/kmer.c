/* K-mer counting and greedy assembly, as in kmer.rs, for ACP: all ranks count the k-mers of the reads of a FASTA file into
 * one multiset, each taking the next reads when it is done with its last; rank 0 assembles contigs from it as the Inchworm
 * step of Trinity does it, and compares them with a serial run.
 *
 *     kmer --generate 7 > reads.fasta          (the example in Rust)
 *     acpcc kmer.c -o kmer && acprun -np 4 ./kmer reads.fasta
 */
#include <acp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K 21                            /* bases of a k-mer, two bits each */
#define MASK (((uint64_t)1 << (2 * K)) - 1)
#define RARE 3                          /* k-mers that are rarer are taken for errors of the sequencer */
#define SHORTEST (3 * K)                /* shorter contigs are not printed */
#define READS 64                        /* reads that a rank takes at a time */
#define SLOTS (1 << 14)

enum way { RIGHT, LEFT };

/* What is counted: the table of all ranks, or that of the serial run. */
struct counts {
    uint64_t (*count)(uint64_t kmer);
    void (*take)(uint64_t kmer);
};

struct seed { uint64_t count, kmer; };
struct text { char *letters; size_t length, room; };

static void *resize(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (memory == NULL) acp_abort("out of memory");
    return memory;
}

static void append(struct text *text, char letter)
{
    if (text->length == text->room) {
        text->room = 2 * text->room + 64;
        text->letters = (char *)resize(text->letters, text->room);
    }
    text->letters[text->length++] = letter;
}

/* The table of all ranks: a key is a word of memory that has a global address. */

static acp_multiset_t table;
static uint64_t key_word;
static acp_ga_t key_place;

static acp_element_t key(uint64_t kmer)
{
    acp_element_t element;
    key_word = kmer;
    element.ga = key_place;
    element.size = sizeof key_word;
    return element;
}

static uint64_t table_count(uint64_t kmer) { return acp_retrieve_multiset(table, key(kmer)); }
static void table_take(uint64_t kmer) { acp_remove_all_multiset(table, key(kmer)); }

/* The serial run: open addressing in a table that is never more than half full. A k-mer is kept plus one. */

static struct seed *cells;
static size_t cell_count;

static struct seed *cell(uint64_t kmer)
{
    size_t at = (size_t)(kmer * 0x9e3779b97f4a7c15u >> 20) % cell_count;
    while (cells[at].kmer != 0 && cells[at].kmer != kmer + 1) at = (at + 1) % cell_count;
    return &cells[at];
}

static uint64_t serial_count(uint64_t kmer) { return cell(kmer)->count; }
static void serial_take(uint64_t kmer) { cell(kmer)->count = 0; }

/* Calls something with each k-mer of a read; those with an unknown base are left out. */
static size_t each_kmer(const char *read, void (*found)(uint64_t kmer))
{
    uint64_t kmer = 0;
    size_t known = 0, kmers = 0;
    for (; *read; read++) {
        static const char bases[] = "ACGT";
        const char *base = strchr(bases, *read >= 'a' ? *read - 32 : *read);
        known = base ? known + 1 : 0;
        kmer = (kmer << 2 | (uint64_t)(base ? base - bases : 0)) & MASK;
        if (known < K) continue;
        kmers++;
        if (found) found(kmer);
    }
    return kmers;
}

static void count_in_table(uint64_t kmer)
{
    if (!acp_insert_multiset(table, key(kmer))) acp_abort("a k-mer could not be counted");
}

static void count_serially(uint64_t kmer)
{
    struct seed *found = cell(kmer);
    found->kmer = kmer + 1;
    found->count++;
}

static uint64_t step(uint64_t kmer, uint64_t base, enum way way)
{
    return way == RIGHT ? (kmer << 2 | base) & MASK : kmer >> 2 | base << (2 * (K - 1));
}

/* The base that leads to the most abundant k-mer; of equals the first in the alphabet; 4 if all are rare. */
static uint64_t best(const struct counts *counts, uint64_t kmer, enum way way)
{
    uint64_t base, found = 4, most = RARE - 1;
    for (base = 0; base < 4; base++) {
        uint64_t count = counts->count(step(kmer, base, way));
        if (count > most) {
            most = count;
            found = base;
        }
    }
    return found;
}

static int by_abundance(const void *one, const void *two)
{
    const struct seed *a = (const struct seed *)one, *b = (const struct seed *)two;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return a->kmer < b->kmer ? -1 : a->kmer > b->kmer;
}

/* Contigs from the most abundant seed on, one a line. */
static struct text assemble(const struct counts *counts, struct seed *seeds, size_t seed_count)
{
    struct text contigs = { NULL, 0, 0 };
    size_t index;
    qsort(seeds, seed_count, sizeof *seeds, by_abundance);
    for (index = 0; index < seed_count; index++) {
        struct text sides[2] = { { NULL, 0, 0 }, { NULL, 0, 0 } };
        uint64_t seed = seeds[index].kmer, base;
        size_t at;
        int way;
        if (seeds[index].count < RARE || counts->count(seed) == 0) continue;
        counts->take(seed);
        for (way = RIGHT; way <= LEFT; way++) {
            uint64_t kmer = seed;
            while ((base = best(counts, kmer, (enum way)way)) < 4) {
                kmer = step(kmer, base, (enum way)way);
                counts->take(kmer);
                append(&sides[way], "ACGT"[base]);
            }
        }
        for (at = sides[LEFT].length; at > 0; at--) append(&contigs, sides[LEFT].letters[at - 1]);
        for (at = K; at > 0; at--) append(&contigs, "ACGT"[seed >> (2 * (at - 1)) & 3]);
        for (at = 0; at < sides[RIGHT].length; at++) append(&contigs, sides[RIGHT].letters[at]);
        append(&contigs, '\n');
        free(sides[RIGHT].letters);
        free(sides[LEFT].letters);
    }
    append(&contigs, '\0');
    return contigs;
}

static void report(const char *contigs)
{
    const char *contig;
    size_t all = 0, kept = 0, bases = 0, number = 0;
    for (contig = contigs; *contig; contig = strchr(contig, '\n') + 1) {
        size_t length = strcspn(contig, "\n");
        all++;
        if (length >= SHORTEST) {
            kept++;
            bases += length;
        }
    }
    printf("%zu contigs, %zu of them long, with %zu bases\n", all, kept, bases);
    for (contig = contigs; *contig; contig = strchr(contig, '\n') + 1) {
        size_t length = strcspn(contig, "\n");
        if (length >= SHORTEST) printf(">contig_%zu %zu bases\n%.*s\n", ++number, length, (int)length, contig);
    }
}

/* The reads of a FASTA file. */
static char **read_fasta(const char *name, size_t *count)
{
    char line[65536], **reads = NULL;
    struct text read = { NULL, 0, 0 };
    FILE *file = fopen(name, "r");
    int more = file != NULL;
    *count = 0;
    if (file == NULL) acp_abort("the reads cannot be opened");
    while (more) {
        size_t at;
        more = fgets(line, sizeof line, file) != NULL;
        if (!more || line[0] == '>') {
            append(&read, '\0');
            if (*count > 0) reads[*count - 1] = read.letters;
            else free(read.letters);
            memset(&read, 0, sizeof read);
            if (more) reads = (char **)resize(reads, ++*count * sizeof *reads);
        } else {
            for (at = 0; line[at] > ' '; at++) append(&read, line[at]);
        }
    }
    fclose(file);
    return reads;
}

/* Rank 0 makes the table and tells the others, in its starter memory; the word behind it is the next read. */
static void share_table(void)
{
    acp_ga_t notice = acp_query_starter_ga(0), own = acp_query_starter_ga(acp_rank());
    int ranks[1024], rank;
    if (acp_procs() > 1024) acp_abort("more ranks than this example has room for");
    for (rank = 0; rank < acp_procs(); rank++) ranks[rank] = rank;
    if (acp_rank() == 0) {
        table = acp_create_multiset(acp_procs(), ranks, SLOTS, 0);
        if (table.ga == ACP_GA_NULL) acp_abort("no memory for the table");
        memcpy(acp_query_address(own), &table, sizeof table);
    }
    acp_sync();
    acp_complete(acp_copy(own, notice, sizeof table, ACP_HANDLE_NULL));
    memcpy(&table, acp_query_address(own), sizeof table);
}

/* Draws the number of the next reads. */
static uint64_t next_reads(void)
{
    acp_ga_t drawn = acp_query_starter_ga(acp_rank()) + 64, next = acp_query_starter_ga(0) + 72;
    acp_complete(acp_add8(drawn, next, READS, ACP_HANDLE_NULL));
    return *(volatile uint64_t *)acp_query_address(drawn);
}

/* All k-mers of the table with their counts. */
static struct seed *fetch(size_t *count)
{
    acp_multiset_it_t it;
    struct seed *seeds = (struct seed *)resize(NULL, (acp_size_multiset(table) + 1) * sizeof *seeds);
    *count = 0;
    for (it = acp_begin_multiset(table); it.rank < (int)table.num_ranks; it = acp_increment_multiset_it(it)) {
        acp_complete(acp_copy(key_place, acp_dereference_multiset_it(it).ga, sizeof key_word, ACP_HANDLE_NULL));
        seeds[*count].kmer = *(volatile uint64_t *)&key_word;
        seeds[*count].count = table_count(seeds[*count].kmer);
        ++*count;
    }
    return seeds;
}

/* What one process gives. */
static struct text run_serially(char **reads, size_t read_count, size_t kmers)
{
    struct counts counts = { serial_count, serial_take };
    struct seed *seeds;
    struct text contigs;
    size_t at, seed_count = 0;
    cell_count = 2 * kmers + 1;
    cells = (struct seed *)resize(NULL, cell_count * sizeof *cells);
    memset(cells, 0, cell_count * sizeof *cells);
    for (at = 0; at < read_count; at++) each_kmer(reads[at], count_serially);
    seeds = (struct seed *)resize(NULL, cell_count * sizeof *seeds);
    for (at = 0; at < cell_count; at++) {
        if (cells[at].kmer == 0) continue;
        seeds[seed_count].kmer = cells[at].kmer - 1;
        seeds[seed_count++].count = cells[at].count;
    }
    contigs = assemble(&counts, seeds, seed_count);
    free(seeds);
    free(cells);
    return contigs;
}

/* Rank 0: contigs from the table, printed and compared. Gives whether they are right. */
static int finish(char **reads, size_t read_count)
{
    struct counts counts = { table_count, table_take };
    struct text contigs, serial;
    size_t seed_count, at, kmers = 0;
    struct seed *seeds = fetch(&seed_count);
    int same;
    for (at = 0; at < read_count; at++) kmers += each_kmer(reads[at], NULL);
    printf("%zu reads, %zu k-mers, %zu of them different\n", read_count, kmers, acp_size_multiset(table));
    contigs = assemble(&counts, seeds, seed_count);
    report(contigs.letters);
    serial = run_serially(reads, read_count, kmers);
    same = strcmp(contigs.letters, serial.letters) == 0;
    printf("a serial run gives %s\n", same ? "the same" : "something else");
    free(contigs.letters);
    free(serial.letters);
    free(seeds);
    acp_destroy_multiset(table);
    return same;
}

int main(int argc, char **argv)
{
    char **reads;
    size_t read_count, at;
    acp_atkey_t registered;
    int right = 1;
    if (acp_init(&argc, &argv) != 0) return 1;
    if (argc != 2) acp_abort("usage: kmer READS.fasta");
    registered = acp_register_memory(&key_word, sizeof key_word, 0);
    key_place = acp_query_ga(registered, &key_word);
    reads = read_fasta(argv[1], &read_count);
    share_table();
    for (;;) {
        uint64_t first = next_reads(), index;
        if (first >= read_count) break;
        for (index = first; index < first + READS && index < read_count; index++)
            each_kmer(reads[index], count_in_table);
    }
    acp_sync();
    if (acp_rank() == 0) right = finish(reads, read_count);
    acp_sync();
    acp_unregister_memory(registered);
    for (at = 0; at < read_count; at++) free(reads[at]);
    free(reads);
    acp_finalize();
    return right ? 0 : 1;
}
