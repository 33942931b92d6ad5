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
int xmp_nodes_rank(xmp_desc_t d, int *rank);               /* from 0 */
int xmp_nodes_attr(xmp_desc_t d, int *attr);
int xmp_nodes_equiv(xmp_desc_t d, xmp_desc_t *dn, int *lb, int *ub, int *st);

/* ---- images of coarrays ----------------------------------------------------------------------------------------------------- */

void xmp_sync_all(int *status);                    /* status may be NULL */
void xmp_sync_memory(int *status);
void xmp_sync_image(int image, int *status);       /* images are counted from 0 */
void xmp_sync_images(int count, const int *images, int *status);
void xmp_sync_images_all(int *status);

#ifdef __cplusplus
}
#endif
#endif
