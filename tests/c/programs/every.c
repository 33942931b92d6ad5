/* Every function of acp.h in one program: all the other programs, one after the other, each with a life of its own. */
#include <stddef.h>

#define PROGRAMS(X) X(failures) X(memory) X(copy) X(atomics) X(heap) X(vector) X(deque) X(list) X(map) X(set) X(multiset) X(workspace) X(edges)

#define DECLARE(name) int name##_main(int argc, char **argv);
PROGRAMS(DECLARE)

int main(int argc, char **argv)
{
    int failed = 0;
    argv[argc] = NULL;
#define CALL(name) failed |= name##_main(argc, argv);
    PROGRAMS(CALL)
    return failed;
}
