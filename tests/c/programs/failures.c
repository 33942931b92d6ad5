/* What goes wrong, by the name in the first argument; the driver looks at the exit code and at what was said. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    const char *what;
    CHECK(acp_init(&argc, &argv) == 0);
    what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "abort") == 0 && acp_rank() == acp_procs() - 1)
        acp_abort("the sky is falling");
    if (strcmp(what, "exit") == 0 && acp_rank() == acp_procs() - 1)
        exit(42);
    if (strcmp(what, "signal") == 0 && acp_rank() == 0)
        raise(SIGSEGV);
    if (strcmp(what, "bounds") == 0) {
        CHECK(acp_copy(word_ga(0, 0), word_ga(0, 0) + 1000000000, 8, 0) == 0 || acp_procs() > 1);
        acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    }
    if (strcmp(what, "starter") == 0) {
        /* The bytes of starter memory, by trying. */
        size_t bytes = (size_t)atoi(argv[2]);
        CHECK(acp_copy(word_ga(acp_rank(), 0), word_ga(acp_rank(), 0) + bytes - 1, 1, 0) > 0);
        CHECK(acp_copy(word_ga(acp_rank(), 0), word_ga(acp_rank(), 0) + bytes, 1, 0) == 0);
    }
    if (strcmp(what, "heap") == 0)
        CHECK(acp_malloc((size_t)atoi(argv[2]), acp_rank()) != ACP_GA_NULL);
    if (strcmp(what, "fill") == 0) {
        /* All that the heap has, and a little of it again. */
        acp_ga_t block, last = ACP_GA_NULL;
        int blocks = 0;
        while ((block = acp_malloc(1 << 20, acp_rank())) != ACP_GA_NULL) {
            last = block;
            blocks++;
        }
        CHECK(blocks > 50 && acp_create_vector(1 << 20, acp_rank()).ga == ACP_GA_NULL);
        acp_free(last);
        CHECK(acp_malloc(1000, acp_rank()) != ACP_GA_NULL);
    }
    CHECK(strcmp(what, "twice") != 0 || acp_init(&argc, &argv) == -1);
    CHECK(acp_finalize() == 0);
    CHECK(acp_finalize() == -1 && acp_rank() == -1 && acp_sync() == -1);
    return 0;
}
