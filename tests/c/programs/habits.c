/* Habits of programs: flags that are looked at without a call, data ahead of its flag, work that is taken by counting. */
#include "check.h"
#include <unistd.h>

#define NONE ((acp_handle_t)ACP_HANDLE_NULL)
#define CONT ((acp_handle_t)ACP_HANDLE_CONT)
#define CELLS 24
#define STEPS 60
#define ITEMS 100

/* Words of starter memory; `exchange` uses those up to 64. */
enum { FROM_LEFT = 65, FROM_RIGHT, STEP, FLAG, TURN, NEXT_ITEM, GOT_ITEM, MARKED, PAGE = 80 };

/* Two copies of the cells of this rank, each with a cell of either neighbour. */
static double field[2][CELLS + 2];
static uint32_t marks[ITEMS];

/* Looks at a word that others write until it is at least this; nothing of the library is called. */
static void look_for(int index, uint64_t least)
{
    while (*my_word(index) < least)
        if (acp_procs() > 2)
            usleep(20);
}

static double start_of(int cell)
{
    return (double)(cell * cell % 17);
}

static double step_of(const double *cell)
{
    return cell[0] + 0.25 * (cell[-1] - 2 * cell[0] + cell[1]);
}

/* Pairs of ranks send a page to and fro: the page, then a word that says so. */
static void ping_pong(void)
{
    int me = acp_rank(), peer = me ^ 1;
    uint64_t turn;
    if (peer >= acp_procs())
        return;
    for (turn = 1; turn <= 100; turn++) {
        volatile unsigned char *page = (volatile unsigned char *)my_word(PAGE);
        if ((turn + (uint64_t)me) % 2 == 0) {
            memset((void *)page, (int)turn, 512);
            *my_word(TURN) = turn;
            CHECK(acp_copy(word_ga(peer, PAGE), word_ga(me, PAGE), 512, NONE) > 0);
            acp_complete(acp_copy(word_ga(peer, FLAG), word_ga(me, TURN), 8, CONT));
        } else {
            look_for(FLAG, turn);
            CHECK(page[0] == turn && page[511] == turn);
        }
    }
}

/* Heat in a ring: the outermost cells go to the neighbours, each ahead of the number of the step. */
static void heat(void)
{
    int me = acp_rank(), procs = acp_procs(), cells = CELLS * procs, cell, step;
    int left = (me + procs - 1) % procs, right = (me + 1) % procs;
    uint64_t all[64];
    acp_atkey_t key = acp_register_memory(field, sizeof field, 0);
    double serial[2][64 * CELLS];
    for (cell = 0; cell < CELLS; cell++)
        field[0][cell + 1] = start_of(me * CELLS + cell);
    exchange(acp_query_ga(key, field), all);
    for (step = 0; step < STEPS; step++) {
        double *now = field[step % 2], *then = field[(step + 1) % 2];
        acp_ga_t at = (acp_ga_t)((char *)now - (char *)field);
        *my_word(STEP) = (uint64_t)step + 1;
        acp_copy(all[left] + at + 8 * (CELLS + 1), all[me] + at + 8, 8, NONE);
        acp_copy(word_ga(left, FROM_RIGHT), word_ga(me, STEP), 8, CONT);
        acp_copy(all[right] + at, all[me] + at + 8 * CELLS, 8, CONT);
        acp_complete(acp_copy(word_ga(right, FROM_LEFT), word_ga(me, STEP), 8, CONT));
        look_for(FROM_LEFT, (uint64_t)step + 1);
        look_for(FROM_RIGHT, (uint64_t)step + 1);
        for (cell = 1; cell <= CELLS; cell++)
            then[cell] = step_of(now + cell);
    }
    for (cell = 0; cell < cells; cell++)
        serial[0][cell] = start_of(cell);
    for (step = 0; step < STEPS; step++)
        for (cell = 0; cell < cells; cell++) {
            const double *now = serial[step % 2];
            double three[3] = {now[(cell + cells - 1) % cells], now[cell], now[(cell + 1) % cells]};
            serial[(step + 1) % 2][cell] = step_of(three + 1);
        }
    for (cell = 0; cell < CELLS; cell++)
        CHECK(field[STEPS % 2][cell + 1] == serial[STEPS % 2][me * CELLS + cell]);
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
}

/* Every rank takes items of its own, and then those of others, until there are none: each is done once. */
static void take_work(void)
{
    int me = acp_rank(), procs = acp_procs(), other, item;
    uint64_t all[64];
    acp_atkey_t key = acp_register_memory(marks, sizeof marks, 0);
    exchange(acp_query_ga(key, marks), all);
    for (other = 0; other < procs; other++) {
        int owner = (me + other) % procs;
        for (;;) {
            acp_complete(acp_add8(word_ga(me, GOT_ITEM), word_ga(owner, NEXT_ITEM), 1, NONE));
            if (*my_word(GOT_ITEM) >= ITEMS)
                break;
            acp_complete(acp_add4(word_ga(me, MARKED), all[owner] + 4 * *my_word(GOT_ITEM), 1, NONE));
        }
    }
    acp_sync();
    for (item = 0; item < ITEMS; item++)
        CHECK(marks[item] == 1);
    CHECK(*my_word(NEXT_ITEM) == ITEMS + (uint64_t)procs);
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    ping_pong();
    acp_sync();
    heat();
    take_work();
    CHECK(acp_finalize() == 0);
    return 0;
}
