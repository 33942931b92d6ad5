/* What the programs check with: a failure ends the job with status 1. */
#ifndef CHECK_H
#define CHECK_H
#include <kumiki_xmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmp.h>

#define CHECK(truth) \
  do { \
    if (!(truth)) { \
      fprintf(stderr, "node %d: %s:%d: %s\n", xmpc_all_node_num(), __FILE__, __LINE__, #truth); \
      exit(1); \
    } \
  } while (0)
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)
#define HERE (__FILE__ ":" TEXT(__LINE__))

/* The executing nodes. */
static inline kxmp_ref executing(void) {
  kxmp_ref ref;
  memset(&ref, 0, sizeof ref);
  return ref;
}

/* All of nodes or of a template. */
static inline kxmp_ref whole(const void *of) {
  kxmp_ref ref = executing();
  ref.of = of;
  return ref;
}

static inline kxmp_ref at1(const void *of, kxmp_sub sub) {
  kxmp_ref ref = whole(of);
  ref.ndims = 1;
  ref.sub[0] = sub;
  return ref;
}

static inline kxmp_ref at2(const void *of, kxmp_sub one, kxmp_sub two) {
  kxmp_ref ref = at1(of, one);
  ref.ndims = 2;
  ref.sub[1] = two;
  return ref;
}

static inline kxmp_sub at(long i) {
  kxmp_sub sub = KXMP_AT(i);
  return sub;
}

static inline kxmp_sub range(long lo, long hi, long step) {
  kxmp_sub sub = KXMP_RANGE(lo, hi, step);
  return sub;
}

static inline kxmp_sub all(void) {
  kxmp_sub sub = KXMP_ALL;
  return sub;
}

static inline kxmp_sub any(void) {
  kxmp_sub sub = KXMP_ANY;
  return sub;
}
#endif
