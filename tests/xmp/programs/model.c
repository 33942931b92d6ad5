/* nodes: 4 */
/* units: model_step.c */
/* A model of two units with one header: the grid, structures that are broadcast, functions that take arrays with their shadow, a coarray of both. */
#include <math.h>
#include <string.h>
#include "model.h"
#include "check.h"
double state[NX][NY], next[NX][NY];
struct physics how;
long calls:[*];

int main(void)
{
  int i, j, s;
  static double u[NX][NY], v[NX][NY];
  double want = 0, got = 0;
  if (xmpc_node_num() == 2) { how.rate = .125; how.steps = 7; strcpy(how.name, "diffusion"); }
#pragma xmp bcast (how) from world[1][0]
  CHECK(how.rate == .125 && how.steps == 7 && !strcmp(how.name, "diffusion"));
#pragma xmp loop on plane[i][j]
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) state[i][j] = (i * 7 + j * 3) % 11;
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) u[i][j] = (i * 7 + j * 3) % 11;
  for (s = 0; s < how.steps; s++) {
    if (s % 2 == 0) step(state, next);
    else step(next, state);
    for (i = 0; i < NX; i++) for (j = 0; j < NY; j++)
      v[i][j] = u[i][j] + how.rate * (u[(i + 1) % NX][j] + u[(i + NX - 1) % NX][j] + u[i][(j + 1) % NY] + u[i][(j + NY - 1) % NY] - 4 * u[i][j]);
    memcpy(u, v, sizeof u);
  }
#pragma xmp loop on plane[i][j] reduction(max:got)
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) got = fmax(got, fabs(next[i][j] - u[i][j]));
  CHECK(got < 1e-12);
  for (i = 0; i < NX; i++) for (j = 0; j < NY; j++) want += u[i][j];
  CHECK(fabs(total(next) - want) < 1e-9);
  xmp_sync_all(NULL);
  for (i = 0; i < 4; i++) { long c = calls:[i]; CHECK(c == 7); }
  return wrong != 0;
}
