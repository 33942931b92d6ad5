#include <xmp.h>
#include "units.h"
static int own[SIZE];
#pragma xmp align own[i] with t[i]
void fill_shared(double factor)
{
#pragma xmp loop on t[i]
  for (int i = 0; i < SIZE; i++) { shared[i] = factor * i; own[i] = 1; }
#pragma xmp reflect (shared)
}
double sum_shared(void)
{
  double s = 0;
#pragma xmp loop on t[i] reduction(+:s)
  for (int i = 0; i < SIZE; i++) s += shared[i];
  return s;
}
void send_box(int me) { box[1]:[(me + 1) % 4] = me; }
int other_private(void)
{
  int n = 0, nodes = 0;
#pragma xmp loop on t[i] reduction(+:n)
  for (int i = 0; i < SIZE; i++) n += own[i];
  static int every:[*];
  every = 1;
  xmp_sync_all(NULL);
  for (int i = 0; i < xmp_num_images(); i++) nodes += every:[i];
  return n == SIZE ? nodes : -1;
}
