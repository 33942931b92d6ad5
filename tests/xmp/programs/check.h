/* How the programs of this folder check themselves: every node counts what it finds wrong, and main returns whether there was anything. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
static int wrong;
#define CHECK(c) ((c) ? 0 : (wrong++, wrong < 5 ? printf("%s:%d: %s is not so\n", __FILE__, __LINE__, #c) : 0))
#endif
