/* Programs that end without acp_finalize: what the first word says, on the last rank or on all of them. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int last;
    CHECK(acp_init(&argc, &argv) == 0);
    last = acp_rank() == acp_procs() - 1;
    CHECK(acp_sync() == 0);
    /* Into a pipe this stays with the process until it is flushed. */
    printf("rank %d is done\n", acp_rank());
    if (strcmp(way, "fork") == 0) {
        /* The child ends well, and waits for nobody; the parent waits for the child. */
        int status = -1;
        pid_t child;
        fflush(stdout);
        child = fork();
        if (child == 0)
            exit(0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        return acp_finalize() == 0 ? 0 : 3;
    }
    if (strcmp(way, "stack") == 0) {
        volatile uint64_t local = 42;
        uint64_t all[64];
        acp_atkey_t key = acp_register_memory((void *)&local, sizeof local, 0);
        CHECK(key != ACP_ATKEY_NULL);
        exchange(acp_query_ga(key, (void *)&local), all);
        if (last)
            return 0;
        /* Until it is refused: then the word stays as it was. */
        do {
            *my_word(65) = UINT64_C(0x5e47111e1);
            acp_copy(word_ga(acp_rank(), 65), all[acp_procs() - 1], 8, (acp_handle_t)ACP_HANDLE_NULL);
            acp_complete((acp_handle_t)ACP_HANDLE_ALL);
        } while (*my_word(65) != UINT64_C(0x5e47111e1));
        return acp_finalize() == 0 ? 0 : 3;
    }
    if (strcmp(way, "code") == 0 && last)
        return 7;
    if (strcmp(way, "_exit") == 0 && last)
        _exit(0);
    /* The others say that they finalize. */
    if (strcmp(way, "one") == 0 && !last)
        return acp_finalize() == 0 ? 0 : 3;
    /* The others are not at their end yet. */
    if (strcmp(way, "sync") == 0 && !last) {
        int met = acp_sync();
        fprintf(stderr, "rank %d came to a barrier: %d\n", acp_rank(), met);
        return met == 0 ? 0 : 5;
    }
    return 0;
}
