/* What the units of a model share: the grid, its arrays, and a structure. */
#ifndef MODEL_H
#define MODEL_H
#include <xmp.h>
#define NX 20
#define NY 12
struct physics { double rate; int steps; char name[16]; };
#pragma xmp nodes world[2][2]
#pragma xmp template plane[NX][NY]
#pragma xmp distribute plane[block][block] onto world
extern double state[NX][NY], next[NX][NY];
#pragma xmp align [i][j] with plane[i][j] :: state, next
#pragma xmp shadow state[1][1]
#pragma xmp shadow next[1][1]
extern struct physics how;
extern long calls:[*];
void step(double from[NX][NY], double to[NX][NY]);
double total(double x[NX][NY]);
#endif
