/* What C code that `kumiki xmpcc` has written calls. Programs include xmp.h, not this.
 *
 * Everything here is normalised by the translator: lists of NODES and TEMPLATES are in Fortran order (first = fastest), nodes count from 0,
 * bounds of templates are inclusive. Dimensions of ARRAYS are in C order, left to right, and array sections are base, length, step.
 * No function returns an error: what goes wrong ends the job with one message that begins with `where` ("heat.c:12"), names the
 * directive and says what to do.
 */
#ifndef KUMIKI_XMP_H
#define KUMIKI_XMP_H
/* It includes nothing: translated programs have it before their own headers, whose feature macros must still work. */
#ifdef __cplusplus
extern "C" {
#endif

#define KXMP_MAX_DIMS 7
typedef __SIZE_TYPE__ kxmp_size;
#define KXMP_LEAST (-__LONG_MAX__ - 1L)

/* ---- references: p[..], t(..) of on-clauses, subsets, post, bcast from ------------------------------------------------------ */

enum { KXMP_AT_, KXMP_RANGE_, KXMP_ALL_, KXMP_ANY_ };
typedef struct kxmp_sub { int kind; long lo, hi, step; } kxmp_sub;     /* lo..hi inclusive, by step */
#define KXMP_FROM KXMP_LEAST                                             /* lo left out: the lower bound */
#define KXMP_TO __LONG_MAX__                                               /* hi left out: the upper bound */
#define KXMP_AT(i) { KXMP_AT_, (i), (i), 1 }
#define KXMP_RANGE(lo, hi, step) { KXMP_RANGE_, (lo), (hi), (step) }
#define KXMP_ALL { KXMP_ALL_, 0, 0, 1 }                                /* `:` the whole dimension */
#define KXMP_ANY { KXMP_ANY_, 0, 0, 1 }                                /* `*` nodes: my own coordinate; templates: does not restrict */

typedef struct kxmp_nodes kxmp_nodes;                                  /* opaque; lives as long as the program */
typedef struct kxmp_template kxmp_template;                            /* likewise */
/* What a reference names: `of` is a kxmp_nodes* or a kxmp_template* (each begins with a tag that tells which). of == NULL: the executing
 * nodes. ndims == 0: all of it, as written without subscripts. */
typedef struct kxmp_ref { const void *of; int ndims; kxmp_sub sub[KXMP_MAX_DIMS]; } kxmp_ref;

/* ---- the program ------------------------------------------------------------------------------------------------------------ */

/* Each unit has a constructor that hands in its initialiser: nodes, templates, arrays and coarrays of file scope, in the order of the text. */
void kxmp_unit(void (*initialise)(void));
/* At the start of main: joins the world (kumiki run, mpirun, srun, or alone) and runs the initialisers. Leaving is done at exit: with status 0
 * all ranks meet first; any other status ends the job with it. */
void kxmp_start(int *argc, char ***argv);

/* ---- nodes, templates ------------------------------------------------------------------------------------------------------- */

#define KXMP_STAR (-1L)                                                /* a size `*` */
enum { KXMP_ENTIRE, KXMP_EXECUTING, KXMP_SUBSET };
/* `slot` is a static pointer of the directive: a second execution with the same meaning finds its object there. */
kxmp_nodes *kxmp_nodes_make(kxmp_nodes **slot, const char *where, const char *name, int ndims, const long *sizes, int kind, kxmp_ref of);

/* lo == NULL: `:`, to be fixed later. */
kxmp_template *kxmp_template_make(kxmp_template **slot, const char *where, const char *name, int ndims, const long *lo, const long *hi);
/* The block ends that declared it: what it was fixed to is nobody's any more. */
void kxmp_template_leave(kxmp_template **variable);
enum { KXMP_NONE = 2100, KXMP_BLOCK, KXMP_CYCLIC, KXMP_GBLOCK };
/* width 0: not said. map: of gblock, one entry a node of the dimension, entry_bytes each (int, long..); NULL: gblock(*). */
typedef struct kxmp_format { int kind; long width; const void *map; kxmp_size entry_bytes; } kxmp_format;
kxmp_template *kxmp_distribute(const char *where, kxmp_template *t, int ndims, const kxmp_format *formats, kxmp_nodes *onto);
/* Either part may be NULL. */
long kxmp_template_lower(const kxmp_template *t, int axis);              /* axis in Fortran order, from 0; the template must be fixed */
long kxmp_template_upper(const kxmp_template *t, int axis);
void kxmp_template_fix(const char *where, kxmp_template *t, int ndims, const kxmp_format *formats, const long *lo, const long *hi);

/* ---- distributed arrays ----------------------------------------------------------------------------------------------------- */

/* One dimension of the local part. Element g of a dimension that is block, gblock, collapsed or has a full shadow is at local index g + shift;
 * of one that is cyclic at KXMP_CYCLIC_INDEX. */
typedef struct kxmp_dim { long extent, shift, lower, nodes, width, mine; } kxmp_dim;
/* Shared by all arrays of one mapping; more follows that only the library knows. */
typedef struct kxmp_mapping { int ndims; kxmp_dim dim[KXMP_MAX_DIMS]; } kxmp_mapping;
typedef struct kxmp_array {
  void *base;                    /* first byte of the local part, shadow included; NULL: not allocated. Where nothing is here, */
                                 /* memory that is not to be touched */
  char *origin;                  /* base, moved so that origin[(g0*extent1 + g1)*extent2 + g2] is element g0,g1,g2: only for non-cyclic dimensions; */
                                 /* in a cyclic one the local index stands for g */
  const kxmp_mapping *map;
  kxmp_size element;                /* bytes */
  int type;                      /* KXMP_DOUBLE.. */
  const char *name;
  void *inside;                  /* the library's */
} kxmp_array;
#define KXMP_CYCLIC_INDEX(d, g) \
  ((d).width == 1 ? ((g) - (d).lower) / (d).nodes \
                  : ((g) - (d).lower) / ((d).nodes * (d).width) * (d).width + ((g) - (d).lower) % (d).width)
/* The same where the width is 1: once for a loop, whose iterations are then one apart. */
#define KXMP_TURN(d, g) \
  ((g) >= (d).lower ? ((g) - (d).lower) / (d).nodes : -(((d).lower - (g) + (d).nodes - 1) / (d).nodes))
/* (lower is the template's lower bound with the offset of the alignment taken off: subscripts of the array go in.) */

typedef struct kxmp_align { int axis; long offset; } kxmp_align;       /* template axis (Fortran order, from 0) of an array dimension, or -1: collapsed */
typedef struct kxmp_width { long lo, hi; int periodic; } kxmp_width;   /* lo == hi == -1: full shadow */
enum { KXMP_OWN, KXMP_LATER, KXMP_BOUND };
/* KXMP_OWN: allocated and zeroed now. KXMP_LATER: a pointer, allocated by xmp_malloc; sizes may be NULL. KXMP_BOUND: `memory` is the local part that
 * a caller handed in; a size of KXMP_STAR (a dummy written `double *x` or `x[]`): as far as the template goes. Template axes that no dimension is aligned with are replicated. `shadow` may be NULL: none. */
void kxmp_array_make(kxmp_array *a, const char *where, const char *name, int type, kxmp_size element, int ndims, const long *sizes,
                     kxmp_template *t, const kxmp_align *align, const kxmp_width *shadow, int storage, void *memory);
void kxmp_array_drop(kxmp_array *a);                                   /* end of a block that declared it; also of one that is all zeros, never made, */
                                                                       /* and of KXMP_BOUND, whose memory stays */
void kxmp_array_await(kxmp_array *a);                                  /* of a unit, before main: nothing, until it is made */
void kxmp_no_memory(const char *where, kxmp_array *a);                 /* a loop needs it, and its base is NULL: says so, and ends the job */
void kxmp_pointer_drop(kxmp_array *a);                                 /* the same of a pointer, whose memory stays, too */
void *kxmp_malloc(const char *where, kxmp_array *a, int ndims, const long *sizes);

enum { KXMP_OTHER, KXMP_CHAR, KXMP_UCHAR, KXMP_SHORT, KXMP_USHORT, KXMP_INT, KXMP_UINT, KXMP_LONG, KXMP_ULONG, KXMP_LLONG, KXMP_ULLONG,
       KXMP_FLOAT, KXMP_DOUBLE, KXMP_LDOUBLE, KXMP_FCOMPLEX, KXMP_DCOMPLEX, KXMP_LDCOMPLEX, KXMP_BOOL, KXMP_SCHAR };
/* The type of an expression, found by the C compiler. */
#define KXMP_TYPE_OF(x) _Generic((x), char: KXMP_CHAR, signed char: KXMP_SCHAR, unsigned char: KXMP_UCHAR, short: KXMP_SHORT, \
  unsigned short: KXMP_USHORT, int: KXMP_INT, unsigned: KXMP_UINT, long: KXMP_LONG, unsigned long: KXMP_ULONG, long long: KXMP_LLONG, \
  unsigned long long: KXMP_ULLONG, float: KXMP_FLOAT, double: KXMP_DOUBLE, long double: KXMP_LDOUBLE, float _Complex: KXMP_FCOMPLEX, \
  double _Complex: KXMP_DCOMPLEX, long double _Complex: KXMP_LDCOMPLEX, _Bool: KXMP_BOOL, default: KXMP_OTHER)
/* The first element of an array of up to three dimensions; anything else as it is, pointers too. */
#define KXMP_DECAYED_(x) __builtin_choose_expr(__builtin_classify_type(x) == 5, (x), (int *)0)
#define KXMP_IS_ARRAY_(x) (__builtin_classify_type(x) == 5 && !__builtin_types_compatible_p(__typeof__(x), __typeof__(&*KXMP_DECAYED_(x))))
#define KXMP_INSIDE_(x) (*__builtin_choose_expr(KXMP_IS_ARRAY_(x), (x), &(x)))
#define KXMP_INSIDE2_(x) KXMP_INSIDE_(KXMP_INSIDE_(x))
#define KXMP_FIRST(x) KXMP_INSIDE_(KXMP_INSIDE2_(x))

/* ---- loops ------------------------------------------------------------------------------------------------------------------ */

/* for (v = lo; v <= hi; v += step), step < 0: v >= hi. axis: which subscript of the reference the variable stands in, or -1: none (not
 * distributed); offset: t[v + offset]. */
typedef struct kxmp_level { int axis; long offset, lo, hi, step; } kxmp_level;
enum { KXMP_PLAIN, KXMP_EXPAND, KXMP_MARGIN };
typedef struct kxmp_widen { int mode; int unbound[KXMP_MAX_DIMS]; long lo[KXMP_MAX_DIMS], hi[KXMP_MAX_DIMS]; } kxmp_widen;   /* by subscript of the reference */
typedef struct kxmp_range { long first, last, step; } kxmp_range;      /* the iterations of this node in one box */
typedef struct kxmp_nest { kxmp_range loop[KXMP_MAX_DIMS]; int levels; void *inside[2]; long counters[4 * KXMP_MAX_DIMS]; } kxmp_nest;
/* { kxmp_nest n; kxmp_nest_begin(&n, ..); while (kxmp_nest_next(&n)) for (i = n.loop[0].first; i <= n.loop[0].last; i += n.loop[0].step) .. }
 * A nest is a sequence of boxes: one for block, gblock, cyclic; several for cyclic(w) and for a margin; none where the node has nothing to do
 * (also because a subscript without a variable is another node's). Order within a box is that of the program. */
void kxmp_nest_begin(kxmp_nest *n, const char *where, kxmp_ref on, int levels, const kxmp_level *level, const kxmp_widen *widen);
int kxmp_nest_next(kxmp_nest *n);

enum { KXMP_SUM, KXMP_PROD, KXMP_BAND, KXMP_BOR, KXMP_BXOR, KXMP_LAND, KXMP_LOR, KXMP_MAX, KXMP_MIN, KXMP_FIRSTMAX, KXMP_FIRSTMIN, KXMP_LASTMAX, KXMP_LASTMIN };
typedef struct kxmp_place { void *variable; kxmp_size bytes; } kxmp_place;  /* a location variable */
/* The reduction clause of a loop. begin: keeps the value where it must be counted once and sets the others to the identity. end: allreduce. For
 * first/last: `iteration` are the variables of the outermost..innermost loop at the iteration that set the value last, `was_set` 0 if none did. */
void kxmp_loop_reduction_begin(const char *where, kxmp_ref on, int levels, const kxmp_level *level, int op, int type, void *value, long count);
void kxmp_loop_reduction_end(const char *where, kxmp_ref on, int levels, const kxmp_level *level, int op, int type, void *value, long count,
                             int places, const kxmp_place *place, int was_set, const long *iteration);

/* ---- other executable directives -------------------------------------------------------------------------------------------- */

/* on.of == NULL with KXMP_TASK.. */
typedef struct kxmp_task { int inside; void *outer; } kxmp_task;
/* if (kxmp_task_begin(&k, ..)) statement; kxmp_task_end(&k);   nocomm: a plain if; what would need
 * nodes that are not inside ends the job. */
int kxmp_task_begin(kxmp_task *k, const char *where, kxmp_ref on, int nocomm);
void kxmp_task_end(kxmp_task *k);

#define KXMP_SYNC (-1L)                                                /* not asynchronous; else the id, any number from 0 */
enum { KXMP_CORNERS, KXMP_ORTHOGONAL };
/* width == NULL: the whole shadow of every dimension. */
void kxmp_reflect(const char *where, kxmp_array *a, const kxmp_width *width, int orthogonal, long id);
void kxmp_reflect_init(const char *where, kxmp_array *a, const kxmp_width *width, int orthogonal);
void kxmp_reflect_do(const char *where, kxmp_array *a, long id);
void kxmp_reduce_shadow(const char *where, kxmp_array *a, const kxmp_width *width, int orthogonal, long id);
void kxmp_barrier(const char *where, kxmp_ref on);
void kxmp_reduction(const char *where, kxmp_ref on, int op, int type, void *value, long count, long id);
void kxmp_reduction_array(const char *where, kxmp_ref on, int op, kxmp_array *a, long id);   /* the local part, shadow left out */
void kxmp_bcast(const char *where, kxmp_ref on, const kxmp_ref *from, void *value, kxmp_size bytes, long id);
void kxmp_bcast_array(const char *where, kxmp_ref on, const kxmp_ref *from, kxmp_array *a, long id);
void kxmp_wait_async(const char *where, int count, const long *ids, kxmp_ref on);

/* Subscripts of arrays, C order. */
typedef struct kxmp_part { int is_range; long base, length, step; } kxmp_part;
#define KXMP_INDEX(i) { 0, (i), 1, 1 }
#define KXMP_SECTION(base, length, step) { 1, (base), (length), (step) }
#define KXMP_REST KXMP_LEAST                                             /* base or length left out */
/* A side of a gmove, a coarray's local side, an array assignment: a distributed array (array != NULL), or memory of every node: `base` points to
 * its first element, `extent` are its declared sizes; ndims == 0: a scalar. */
typedef struct kxmp_side { kxmp_array *array; void *base; kxmp_size element; int type; int ndims; const long *extent; kxmp_part part[KXMP_MAX_DIMS]; } kxmp_side;
enum { KXMP_COLLECTIVE, KXMP_IN, KXMP_OUT };
void kxmp_gmove(const char *where, int mode, const kxmp_side *left, const kxmp_side *right, long id);

/* ---- coarrays, events, locks ------------------------------------------------------------------------------------------------ */

typedef struct kxmp_coarray kxmp_coarray;
/* Memory for all images, zeroed; `memory` gets the own. codims: of `:[NZ][NY][*]`, first = fastest, the last is KXMP_STAR. on == NULL: all nodes. */
kxmp_coarray *kxmp_coarray_make(kxmp_coarray **slot, void **memory, const char *where, const char *name, int type, kxmp_size element, int ndims, const long *extent,
                                int codims, const long *codim, const kxmp_nodes *on);
/* image: as many numbers as codimensions, from 0; NULL: this image. part: as many as dimensions. The other side is memory of this node. A put is in order with later
 * puts to and gets from the same image, and complete at the image after xmp_sync_*, post, unlock or a barrier. */
void kxmp_coarray_put(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, const kxmp_side *from);
/* A member of each element, or elements of one: from the beginning of the coarray's element to the first, and how many bytes apart they are. Ranges
 * come behind those of `part`. */
typedef struct kxmp_inside { kxmp_size offset, element; int type, ranges; struct { long count, stride; } range[KXMP_MAX_DIMS]; } kxmp_inside;
void kxmp_coarray_put_inside(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, const kxmp_inside *inside, const kxmp_side *from);
void kxmp_coarray_get(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, const kxmp_side *to);
void kxmp_coarray_copy(const char *where, kxmp_coarray *to, const long *to_image, const kxmp_part *to_part,
                       kxmp_coarray *from, const long *from_image, const kxmp_part *from_part);
/* One element as an rvalue: a temporary that stays valid until 64 more have been fetched by this thread. */
const void *kxmp_coarray_fetch(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part);
void kxmp_atomic_define(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, long value);
void kxmp_atomic_ref(const char *where, void *value, kxmp_size bytes, kxmp_coarray *c, const long *image, const kxmp_part *part);
void kxmp_lock(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, int *acquired, int *status);   /* both may be NULL */
void kxmp_unlock(const char *where, kxmp_coarray *c, const long *image, const kxmp_part *part, int *status);
void kxmp_post(const char *where, kxmp_ref to, long tag);
#define KXMP_NO_TAG KXMP_LEAST
void kxmp_wait(const char *where, const kxmp_ref *from, long tag);     /* from == NULL: anybody */

#ifdef __cplusplus
}
#endif
#endif
