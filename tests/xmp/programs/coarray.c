/* nodes: 4 */
/* Coarrays: put, get, values in expressions, sections, initialisers, several codimensions. */
#include <xmp.h>
#include "check.h"
int x:[*], y[10]:[*], z = 3;
double m[4][5]:[*];
int started:[*] = 42;
long grid[3]:[2][*];
struct pair { int key; double value; } s[3]:[*];
int main(void)
{
  int me = xmpc_node_num(), n = xmp_num_nodes(), next = (me + 1) % n, i, j, got[10];
  double row[5];
  CHECK(started == 42 && z == 3);
  x = me;
  for (i = 0; i < 10; i++) y[i] = 100 * me + i;
  xmp_sync_all(NULL);
  CHECK(x:[next] == next);
  CHECK(y[3]:[next] + x:[0] == 100 * next + 3);
  got[:] = y[:]:[next];
  for (i = 0; i < 10; i++) CHECK(got[i] == 100 * next + i);
  xmp_sync_all(NULL);
  x:[next] = 1000 + me;
  y[2:3]:[next] = got[0:3];
  y[9]:[next] = -1;
  xmp_sync_all(NULL);
  CHECK(x == 1000 + (me + n - 1) % n);
  for (i = 0; i < 3; i++) CHECK(y[2 + i] == 100 * me + i);
  CHECK(y[9] == -1 && y[8] == 100 * me + 8);
  for (i = 0; i < 4; i++)
    for (j = 0; j < 5; j++) m[i][j] = me + i * 0.5 + j * 0.25;
  xmp_sync_all(NULL);
  row[:] = m[2][:]:[next];
  for (j = 0; j < 5; j++) CHECK(row[j] == next + 1.0 + j * 0.25);
  xmp_sync_all(NULL);
  m[0:2][1:3]:[next] = 7.5;
  grid[1] = 10 * me;
  s[1].key = me;
  s[1].value = 0.5 * me;
  xmp_sync_all(NULL);
  CHECK(m[0][1] == 7.5 && m[1][3] == 7.5 && m[1][4] != 7.5 && m[2][1] != 7.5);
  CHECK(grid[1]:[1][0] == 10 && grid[1]:[0][1] == 20);
  CHECK(s[1]:[next].key == next && s[1].value:[next] == 0.5 * next);
  xmp_sync_all(NULL);
  if (me == 0) {
    y[0:4]:[1] = y[4:4]:[2];
    x:[3] += 5;
  }
  xmp_sync_all(NULL);
  if (me == 1) for (i = 0; i < 4; i++) CHECK(y[i] == (i == 0 ? 202 : 204 + i));
  if (me == 3) CHECK(x == 1000 + 2 + 5);
  return wrong != 0;
}
