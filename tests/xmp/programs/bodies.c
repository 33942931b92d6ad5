/* nodes: 4 */
/* Bodies as structures: each node moves its own, and all positions come by gmove; momentum stays, and the nearest pair is found. */
#include <math.h>
#include <xmp.h>
#include "check.h"
#define N 30
typedef struct { double x[3], v[3], mass; int id; } body;
#pragma xmp nodes p[*]
#pragma xmp template t[N]
#pragma xmp distribute t[cyclic(4)] onto p
body bodies[N], sorted[N];
double speed[N];
#pragma xmp align [i] with t[i] :: bodies, speed
#pragma xmp template u[N]
#pragma xmp distribute u[block] onto p
#pragma xmp align sorted[i] with u[i]

static void begin(body *b, int i)
{
  for (int d = 0; d < 3; d++) { b->x[d] = sin(i * (d + 1) + d); b->v[d] = cos(i - d) * .1; }
  b->mass = 1 + i % 3;
  b->id = i;
}

static void force(const body *all, int i, double *f)
{
  f[0] = f[1] = f[2] = 0;
  for (int j = 0; j < N; j++) {
    double r[3], square = .01;
    for (int d = 0; d < 3; d++) { r[d] = all[j].x[d] - all[i].x[d]; square += r[d] * r[d]; }
    for (int d = 0; d < 3; d++) f[d] += all[i].mass * all[j].mass * r[d] / (square * sqrt(square));
  }
}

int main(void)
{
  body all[N], own[N], one;
  double f[3], sum = 0, nearest = 1e9, want = 1e9;
  int i, j, d, s, who = -1, with = -1, x = -1, y = -1;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) begin(&bodies[i], i);
  for (i = 0; i < N; i++) begin(&own[i], i);
  for (s = 0; s < 4; s++) {
#pragma xmp gmove
    all[:] = bodies[:];
#pragma xmp loop on t[i]
    for (i = 0; i < N; i++) {
      force(all, i, f);
      for (d = 0; d < 3; d++) { bodies[i].v[d] += .001 * f[d] / bodies[i].mass; bodies[i].x[d] += .001 * bodies[i].v[d]; }
    }
    for (i = 0; i < N; i++) {
      force(all, i, f);
      for (d = 0; d < 3; d++) { own[i].v[d] += .001 * f[d] / own[i].mass; }
    }
    for (i = 0; i < N; i++) for (d = 0; d < 3; d++) own[i].x[d] += .001 * own[i].v[d];
  }
#pragma xmp loop on t[i] reduction(+:sum)
  for (i = 0; i < N; i++) sum += bodies[i].mass * bodies[i].v[0];
  for (i = 0; i < N; i++) sum -= own[i].mass * own[i].v[0];
  CHECK(fabs(sum) < 1e-12);
#pragma xmp gmove
  sorted[0:N] = bodies[N-1:N:-1];
#pragma xmp loop on u[i]
  for (i = 0; i < N; i++) CHECK(sorted[i].id == N - 1 - i && sorted[i].x[2] == own[N - 1 - i].x[2]);
#pragma xmp gmove
  one = sorted[3];
  CHECK(one.id == N - 4 && one.mass == own[N - 4].mass);
#pragma xmp gmove
  all[:] = bodies[:];
#pragma xmp loop on t[i] reduction(firstmin:nearest/who,with/)
  for (i = 0; i < N; i++)
    for (j = i + 1; j < N; j++) {
      double far = hypot(hypot(all[i].x[0] - all[j].x[0], all[i].x[1] - all[j].x[1]), all[i].x[2] - all[j].x[2]);
      if (far < nearest) { nearest = far; who = i; with = j; }
    }
  for (i = 0; i < N; i++)
    for (j = i + 1; j < N; j++) {
      double far = hypot(hypot(all[i].x[0] - all[j].x[0], all[i].x[1] - all[j].x[1]), all[i].x[2] - all[j].x[2]);
      if (far < want) { want = far; x = i; y = j; }
    }
  CHECK(nearest == want && who == x && with == y);
#pragma xmp array on t[0:N]
  speed[0:N] = 2.0;
#pragma xmp loop on t[i]
  for (i = 0; i < N; i++) CHECK(speed[i] == 2);
  return wrong != 0;
}
