/* nodes: 2 */
/* flags: -fopenmp */
/* Many headers of the system: their types, functions and macros around distributed arrays. */
#define _GNU_SOURCE
#include <assert.h>
#include <complex.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <tgmath.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include "xmp.h"
#include "check.h"
#define N 100
#pragma xmp nodes p(2)
#pragma xmp template t(0:N-1)
#pragma xmp distribute t(block) onto p
double a[N];
uint64_t u[N];
bool flags[N];
#pragma xmp align [i] with t(i) :: a, u, flags
typedef struct { time_t when; struct timeval tv; pthread_mutex_t m; FILE *f; } state;
static int compare(const void *x, const void *y) { return *(const double *)x < *(const double *)y ? -1 : *(const double *)x > *(const double *)y; }
int main(void)
{
  state s = { .when = 0 };
  struct timeval begin;
  FILE *out = stderr;
  size_t length = 0;
  int n, i;
  double worst = -INFINITY;
  char line[64];
  gettimeofday(&begin, NULL);
  errno = 0;
  if (out == NULL || begin.tv_sec < 0) exit(EXIT_FAILURE);
#pragma xmp loop (i) on t(i)
  for (i = 0; i < N; i++) {
    a[i] = fabs(sin((double)i)) + (isnan((double)i) ? 1.0 : 0.0);
    u[i] = UINT64_C(1) << (i % 60);
    flags[i] = i % 2 ? true : false;
    assert(a[i] >= 0);
    length += (size_t)snprintf(line, sizeof(line), "%" PRIu64 "%c", u[i], toupper('x'));
  }
#pragma xmp loop (i) on t(i) reduction(max:worst)
  for (i = 0; i < N; i++) {
    if (flags[i] && a[i] > worst) worst = fmax(a[i], worst);
    CHECK(u[i] == (uint64_t)1 << (i % 60));
  }
  CHECK(worst > 0.99 && worst <= 1.0 && length > 0 && errno != ENOENT - 1000);
  xmp_array_lsize(xmp_desc_of(a), 1, &n);
  qsort(a, n, sizeof(double), compare);
  {
    double *first = a, *last = first + n;
    for (; first + 1 < last; first++) CHECK(first[0] <= first[1]);
  }
#pragma omp parallel
  { (void)omp_get_thread_num(); }
  s.f = out;
  CHECK(offsetof(state, tv) > 0 && s.f == stderr && INT_MAX > 0 && DBL_EPSILON > 0);
  return wrong != 0;
}
