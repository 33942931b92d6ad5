/* nodes: 6 */
/* Structures, arrays of them, members and rows are broadcast: to all, to a row of the nodes, in each column by itself. */
#include <string.h>
#include <xmp.h>
#include "check.h"
#define ROWS 2
#define COLUMNS 3
struct inner { short kind; double at[3]; };
typedef struct { int id; struct inner part; char tag[5]; } thing;
union word { int i; unsigned char c[4]; };
#pragma xmp nodes p[ROWS][COLUMNS]
#pragma xmp nodes line[COLUMNS] = p[1][:]

static thing made(int id)
{
  thing t;
  memset(&t, 0, sizeof t);
  t.id = id;
  t.part.kind = id * 3;
  t.part.at[0] = id + .5; t.part.at[2] = -id;
  strcpy(t.tag, "abcd");
  t.tag[0] += id;
  return t;
}

int main(void)
{
  int me = xmpc_all_node_num(), row = me / COLUMNS, column = me % COLUMNS, i;
  thing one = made(me), want, many[4], *where = &one;
  union word w;
  int table[3][4], x = me;
  enum color { RED, GREEN, BLUE } color = row ? BLUE : GREEN;
#pragma xmp bcast (one) from p[1][2]
  want = made(5);
  CHECK(!memcmp(&one, &want, sizeof one));
  for (i = 0; i < 4; i++) many[i] = made(10 * me + i);
#pragma xmp bcast (many) from p[0][1] on p[0][:]
  for (i = 0; i < 4; i++) CHECK(many[i].id == (row == 0 ? 10 : 10 * me) + i && many[i].part.at[2] == -many[i].id);
  /* Each column by itself: its first node gives. */
  x = me;
#pragma xmp bcast (x) on p[:][*]
  CHECK(x == column);
  x = me;
#pragma xmp bcast (x) from p[1][*] on p[:][*]
  CHECK(x == COLUMNS + column);
  where->part.at[1] = me;
#pragma xmp bcast (where->part.at[1], color) from p[1][0]
  CHECK(one.part.at[1] == 3 && color == BLUE);
  w.i = me == 4 ? 0x01020304 : 0;
#pragma xmp bcast (w) from line[1]
  CHECK(w.i == 0x01020304);
  for (i = 0; i < 12; i++) table[i / 4][i % 4] = 100 * me + i;
#pragma xmp bcast (table[1]) from p[0][2]
  CHECK(table[1][0] == 204 && table[1][3] == 207 && table[0][3] == 100 * me + 3 && table[2][0] == 100 * me + 8);
#pragma xmp task on line
  {
    x = me;
#pragma xmp bcast (x) from line[2]
    CHECK(x == 5);
    x = 10 * me;
#pragma xmp bcast (x)
  }
  CHECK(row == 0 || x == 30);
  return wrong != 0;
}
