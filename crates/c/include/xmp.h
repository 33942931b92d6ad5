/* XcalableMP 1.4: the functions that programs call. `kumiki xmpcc` translates the directives.
 *
 * Dimensions of nodes and templates are counted from 1, the fastest first, whatever brackets they were declared with; those of arrays
 * are counted from 1, left to right. Inquiry functions give 0, or a negative number and a line on standard error.
 */
#ifndef XMP_H
#define XMP_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef void *xmp_desc_t;                          /* of nodes, a template or an array: xmp_desc_of(name) */
typedef struct xmp_lock_t { unsigned long holder, reserved; } xmp_lock_t;
#define XMP_LOCK_INITIALIZER { 0, 0 }

/* xmp_nodes_attr */
#define XMP_ENTIRE_NODES 2000
#define XMP_EXECUTING_NODES 2001
#define XMP_PRIMARY_NODES 2002
#define XMP_EQUIVALENCE_NODES 2003
/* xmp_dist_format */
#define XMP_NOT_DISTRIBUTED 2100
#define XMP_BLOCK 2101
#define XMP_CYCLIC 2102
#define XMP_GBLOCK 2103
/* status of xmp_sync_* and of lock and unlock */
#define XMP_STAT_SUCCESS 0
#define XMP_STAT_STOPPED_IMAGE 40
#define XMP_STAT_LOCKED 41
#define XMP_STAT_UNLOCKED 42
#define XMP_STAT_LOCKED_OTHER_IMAGE 43
#define XMP_STAT_FAILED_IMAGE 44

/* ---- this node, time, end --------------------------------------------------------------------------------------------------- */

int xmp_node_num(void);                            /* among those that execute, from 1 */
int xmpc_node_num(void);                           /* from 0 */
int xmp_this_image(void);                          /* from 1 */
int xmpc_this_image(void);                         /* from 0 */
int xmp_num_nodes(void);
int xmp_num_images(void);
int xmp_all_node_num(void);                        /* among all, from 1 */
int xmpc_all_node_num(void);                       /* from 0 */
int xmp_all_num_nodes(void);
double xmp_wtime(void);
double xmp_wtick(void);
void xmp_exit(int status);                         /* all nodes call it */

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

int xmp_nodes_ndims(xmp_desc_t d, int *ndims);
int xmp_nodes_index(xmp_desc_t d, int dim, int *index);    /* from 1 */
int xmpc_nodes_index(xmp_desc_t d, int dim, int *index);   /* from 0 */
int xmp_nodes_size(xmp_desc_t d, int dim, int *size);
int xmp_nodes_rank(xmp_desc_t d, int *rank);               /* from 1 */
int xmp_nodes_attr(xmp_desc_t d, int *attr);
int xmp_nodes_equiv(xmp_desc_t d, xmp_desc_t *dn, int *lb, int *ub, int *st);

/* ---- templates -------------------------------------------------------------------------------------------------------------- */

int xmp_template_fixed(xmp_desc_t d, int *fixed);
int xmp_template_ndims(xmp_desc_t d, int *ndims);
int xmp_template_lbound(xmp_desc_t d, int dim, int *lbound);
int xmp_template_ubound(xmp_desc_t d, int dim, int *ubound);
int xmp_template_gsize(xmp_desc_t d, int dim);             /* the answer itself; so are those of Omni below */
int xmp_template_lsize(xmp_desc_t d, int dim);
int xmp_dist_format(xmp_desc_t d, int dim, int *format);
int xmp_dist_blocksize(xmp_desc_t d, int dim, int *size);
int xmp_dist_gblockmap(xmp_desc_t d, int dim, int *map);
int xmp_dist_nodes(xmp_desc_t d, xmp_desc_t *dn);
int xmp_dist_axis(xmp_desc_t d, int dim, int *axis);           /* 0: not spread */
/* Where this node's part of a loop from one index to another begins, and the place behind its end; dim is counted from 0. */
void xmp_sched_template_index(int *first, int *last, int global_first, int global_last, int step, xmp_desc_t t, int dim);

/* ---- arrays ----------------------------------------------------------------------------------------------------------------- */

int xmp_align_axis(xmp_desc_t d, int dim, int *axis);          /* 0: collapsed */
int xmp_align_offset(xmp_desc_t d, int dim, int *offset);
int xmp_align_replicated(xmp_desc_t d, int dim, int *replicated);   /* over a dimension of the template */
int xmp_align_template(xmp_desc_t d, xmp_desc_t *dt);
int xmp_array_ndims(xmp_desc_t d, int *ndims);
int xmp_array_lshadow(xmp_desc_t d, int dim, int *lshadow);
int xmp_array_ushadow(xmp_desc_t d, int dim, int *ushadow);
int xmp_array_lbound(xmp_desc_t d, int dim, int *lbound);
int xmp_array_ubound(xmp_desc_t d, int dim, int *ubound);
int xmp_array_lbound_global(xmp_desc_t d, int dim, int *lbound);
int xmp_array_ubound_global(xmp_desc_t d, int dim, int *ubound);
int xmp_array_gsize(xmp_desc_t d, int dim);
int xmp_array_lsize(xmp_desc_t d, int dim, int *lsize);        /* without the shadow */
int xmp_array_gcllbound(xmp_desc_t d, int dim);   /* the first and last index that this node has */
int xmp_array_gclubound(xmp_desc_t d, int dim);
int xmp_array_lcllbound(xmp_desc_t d, int dim);   /* and where they are in its part */
int xmp_array_lclubound(xmp_desc_t d, int dim);
int xmp_array_laddr(xmp_desc_t d, void **laddr);
int xmp_array_lead_dim(xmp_desc_t d, int *size);
int xmp_array_gtol(xmp_desc_t d, const int *g_idx, int *l_idx);
/* The node, counted from 0, that has an element; with a dimension (from 1): its coordinate in that. -1: none. */
int xmp_array_owner(xmp_desc_t d, int ndims, const int *index, int dim);
void xmp_free(xmp_desc_t d);                                   /* memory of xmp_malloc, which xmpcc translates */
int xmp_test_async(int id);

/* ---- transformations of whole arrays: the result comes first; all executing nodes call them --------------------------------- */

void xmp_transpose(xmp_desc_t x, xmp_desc_t a, int opt);
void xmp_matmul(xmp_desc_t x, xmp_desc_t a, xmp_desc_t b);
void xmp_sort_up(xmp_desc_t v1, xmp_desc_t v2);
void xmp_sort_down(xmp_desc_t v1, xmp_desc_t v2);
void xmp_pack(xmp_desc_t v, xmp_desc_t a, xmp_desc_t mask);    /* mask may be NULL */
void xmp_unpack(xmp_desc_t a, xmp_desc_t v, xmp_desc_t mask);
/* xmp_gather(x, a, idx1, idx2..): x[i] = a[idx1[i]][idx2[i]]; xmp_scatter(x, a, idx1..): x[idx1[i]].. = a[i]. */
void xmp_gather_list(xmp_desc_t x, xmp_desc_t a, const xmp_desc_t *indices, int count);
void xmp_scatter_list(xmp_desc_t x, xmp_desc_t a, const xmp_desc_t *indices, int count);
#if !defined(_XCALABLEMP) && !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L   /* xmpcc translates them itself */
#define XMP_COUNT_(...) (int)(sizeof((xmp_desc_t[]){ __VA_ARGS__ }) / sizeof(xmp_desc_t))
#define xmp_gather(x, a, ...) xmp_gather_list(x, a, (xmp_desc_t[]){ __VA_ARGS__ }, XMP_COUNT_(__VA_ARGS__))
#define xmp_scatter(x, a, ...) xmp_scatter_list(x, a, (xmp_desc_t[]){ __VA_ARGS__ }, XMP_COUNT_(__VA_ARGS__))
#endif

/* ---- images of coarrays ----------------------------------------------------------------------------------------------------- */

void xmp_sync_all(int *status);                    /* status may be NULL */
void xmp_sync_memory(int *status);
void xmp_sync_image(int image, int *status);       /* images are counted from 0 */
void xmp_sync_images(int count, const int *images, int *status);
void xmp_sync_images_all(int *status);

/* ---- MPI -------------------------------------------------------------------------------------------------------------------- */

/* A program that is translated joins at the start of main; one that is not, and calls an XMP library, does so by xmp_init. Start both with mpirun. */
void xmp_finalize(void);
const int *kxmp_members(xmp_desc_t nodes, int *count);         /* for what follows */
void *kxmp_communicator(xmp_desc_t nodes, int *is_new);
void kxmp_refuse(const char *what);
void kxmp_start(int *argc, char ***argv);

#ifdef __cplusplus
}
#endif

/* Where mpi.h is included first, the functions of MPI that the program has. */
#ifdef MPI_VERSION
static __inline__ MPI_Comm xmp_communicator_of(xmp_desc_t nodes) {
  int is_new, size, count;
  const int *ranks;
  MPI_Group all, some;
  MPI_Comm *comm;
  MPI_Initialized(&size);
  if (!size) kxmp_refuse("MPI is not initialised: call xmp_init_mpi(&argc, &argv), or MPI_Init, before a communicator is asked for");
  MPI_Finalized(&size);
  if (size) kxmp_refuse("MPI is finalized: there is no communicator any more");
  comm = (MPI_Comm *)kxmp_communicator(nodes, &is_new);
  if (comm == NULL) return MPI_COMM_NULL;                      /* this node is not among them */
  if (is_new) {
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != xmp_all_num_nodes()) kxmp_refuse("MPI_COMM_WORLD has not as many processes as there are nodes: start the program with mpirun");
    ranks = kxmp_members(nodes, &count);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, (int *)ranks, &some);
    MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  }
  return *comm;
}

/* The communicator of the executing nodes. All of them call it. */
static __inline__ MPI_Comm xmp_get_mpi_comm(void) { return xmp_communicator_of(NULL); }

static __inline__ int xmp_nodes_comm(xmp_desc_t d, void **comm) {
  *(MPI_Comm *)comm = xmp_communicator_of(d);
  return 0;
}

static __inline__ void xmp_init_mpi(int *argc, char ***argv) {
  int is_done;
  MPI_Initialized(&is_done);
  if (!is_done) MPI_Init(argc, argv);
}

static __inline__ void xmp_finalize_mpi(void) {
  int is_done;
  MPI_Finalized(&is_done);
  if (!is_done) MPI_Finalize();
}

/* For an XMP library that an MPI program calls: the nodes are the processes of the communicator, which must be all of MPI_COMM_WORLD. */
static __inline__ void xmp_init(MPI_Comm comm) {
  int result;
  MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
  if (result != MPI_IDENT && result != MPI_CONGRUENT) kxmp_refuse("xmp_init: the communicator must have the processes of MPI_COMM_WORLD, in their order");
  kxmp_start(NULL, NULL);
}
#endif
#endif
