/* For programs of kumiki.h: what must hold, and what must be refused with words that name it. */
#ifndef KUMIKI_CHECK_H_INCLUDED
#define KUMIKI_CHECK_H_INCLUDED

#include <kumiki.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                          \
    do {                                                                                     \
        if (!(what)) {                                                                       \
            fprintf(stderr, "%s:%d: this should be: %s (%s)\n", __FILE__, __LINE__, #what, kumiki_last_error()); \
            exit(3);                                                                         \
        }                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == KUMIKI_SUCCESS)
#define MISUSE(call, word)                                                                   \
    do {                                                                                     \
        CHECK((call) == KUMIKI_MISUSE);                                                      \
        CHECK(strstr(kumiki_last_error(), word) != NULL);                                    \
    } while (0)
#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

#endif
