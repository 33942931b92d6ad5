/* Names nothing of the library when it is linked, and looks for it when it runs, as plug-ins and interpreters do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    const char *names[] = {"acp_init", "kumiki_init", "waitio_init", "waitio_mpi_isend", "waitio_mpi_isend_"};
    unsigned at;
    for (at = 0; at < sizeof names / sizeof *names; at++) {
        if (!dlsym(RTLD_DEFAULT, names[at])) {
            fprintf(stderr, "there is no %s\n", names[at]);
            return 1;
        }
    }
    return 0;
}
