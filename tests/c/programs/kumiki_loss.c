/* The last rank goes while others wait for it in every pattern: all of them are told, and their memory is left alone. */
#include "kumiki_check.h"
#include <unistd.h>

enum { LONGEST = 200000 };

int main(void)
{
    kumiki_world *world = NULL;
    kumiki_group *group = NULL, *others = NULL;
    kumiki_grid *grid = NULL;
    kumiki_halo *halo = NULL;
    kumiki_sparse *sparse = NULL;
    kumiki_relay *relay = NULL;
    kumiki_sender *sender = NULL;
    kumiki_receiver *receiver = NULL;
    kumiki_request *requests[5] = {NULL, NULL, NULL, NULL, NULL};
    unsigned char *memory = (unsigned char *)malloc(LONGEST);
    uint32_t me, ranks, gone;
    const int ring = 1;
    size_t piece = 8, ghosts[2] = {1, 1}, sources = 0, bytes = 0, i;
    double sum = 1, field[10];
    void *fields[1], *bucket = NULL;
    fields[0] = field;
    memset(field, 0, sizeof field);
    memset(memory, 1, LONGEST);
    OK(kumiki_init(&world));
    me = (uint32_t)kumiki_rank(world);
    ranks = (uint32_t)kumiki_ranks(world);
    gone = ranks - 1;
    OK(kumiki_group_create(world, NULL, &group));
    OK(kumiki_grid_create(group, 1, &ranks, &ring, &grid));
    OK(kumiki_halo_create(grid, 8, &piece, ghosts, 0, 1, &halo));
    OK(kumiki_sparse_create(world, 0, &sparse));
    OK(kumiki_relay_create(world, NULL, 0, 64, 2, &relay));
    OK(kumiki_group_split(group, me == gone ? -1 : 0, 0, &others));
    if (me == gone) {
        OK(kumiki_message_receive(world, 0, 0, 1, &sum, 8, NULL));
        _exit(7);
    }
    OK(kumiki_sender_create(world, gone, &sender));
    OK(kumiki_receiver_create(world, gone, 0, 0, &receiver));
    OK(kumiki_message_start_receive(world, 0, gone, 2, memory, LONGEST, &requests[0]));
    OK(kumiki_message_start_send(world, 0, gone, 3, memory, LONGEST, &requests[1]));
    OK(kumiki_sender_start_send(sender, memory, LONGEST, &requests[2]));
    OK(kumiki_receiver_start_receive(receiver, memory, LONGEST, &requests[3]));
    OK(kumiki_group_start_allreduce(group, &sum, 1, KUMIKI_F64, KUMIKI_ADD, &requests[4]));
    OK(kumiki_group_barrier(others));
    /* It may be gone before it has said that it got this. */
    if (me == 0)
        (void)kumiki_message_send(world, 0, gone, 1, &sum, 8);
    for (i = 0; i < 4; i++)
        CHECK(kumiki_request_wait(&requests[i], NULL) == KUMIKI_PEER_LOST && requests[i] == NULL);
    CHECK(kumiki_request_wait(&requests[4], NULL) != KUMIKI_SUCCESS && sum == 1);
    CHECK(kumiki_group_barrier(group) != KUMIKI_SUCCESS);
    CHECK(kumiki_halo_exchange(halo, fields) != KUMIKI_SUCCESS);
    CHECK(kumiki_sparse_finish(sparse, &sources) != KUMIKI_SUCCESS);
    while (kumiki_relay_receive(relay, &bucket, &bytes) == KUMIKI_SUCCESS && bucket != NULL)
        ;
    CHECK(kumiki_message_receive(world, 0, gone, 2, memory, LONGEST, NULL) == KUMIKI_PEER_LOST);
    for (i = 0; i < LONGEST; i++)
        CHECK(memory[i] == 1);
    (void)kumiki_halo_free(halo);
    (void)kumiki_grid_free(grid);
    (void)kumiki_group_free(group);
    (void)kumiki_sparse_free(sparse);
    (void)kumiki_relay_close(relay);
    (void)kumiki_sender_free(sender);
    (void)kumiki_receiver_free(receiver);
    OK(kumiki_group_free(others));
    memset(memory, 2, LONGEST);
    free(memory);
    fprintf(stderr, "rank %u was told\n", (unsigned)me);
    (void)kumiki_finalize(world);
    return 0;
}
