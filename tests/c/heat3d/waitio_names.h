/*
 * The names of MPI that a solver uses, replaced by those of WaitIO: `mpicc -include waitio_names.h solver.c -lwaitio_mpi`. The solver then runs over all
 * blocks, whatever MPI each has. What is not named here (MPI_Init, MPI_Finalize, MPI_Wtime) stays with the MPI of the block.
 */
#ifndef WAITIO_NAMES_H
#define WAITIO_NAMES_H

#include <mpi.h>
#include <waitio_mpi.h>

/* Everybody, of all blocks. Joins them when it is first used: MPI has been initialised by then. */
static inline WAITIO_MPI_Comm waitio_names_world(void)
{
    static WAITIO_MPI_Comm world;
    if (world == WAITIO_MPI_COMM_NULL && waitio_create_universe(&world) != 0)
        exit(1);
    return world;
}

#undef MPI_COMM_WORLD
#undef MPI_STATUS_IGNORE
#undef MPI_STATUSES_IGNORE
#undef MPI_IN_PLACE
#undef MPI_INT
#undef MPI_LONG
#undef MPI_FLOAT
#undef MPI_DOUBLE
#undef MPI_SUM
#undef MPI_MAX
#undef MPI_MIN

#define MPI_COMM_WORLD waitio_names_world()
#define MPI_STATUS_IGNORE WAITIO_MPI_STATUS_IGNORE
#define MPI_STATUSES_IGNORE WAITIO_MPI_STATUSES_IGNORE
#define MPI_IN_PLACE WAITIO_MPI_IN_PLACE
#define MPI_INT WAITIO_MPI_INT
#define MPI_LONG WAITIO_MPI_LONG
#define MPI_FLOAT WAITIO_MPI_FLOAT
#define MPI_DOUBLE WAITIO_MPI_DOUBLE
#define MPI_SUM WAITIO_MPI_SUM
#define MPI_MAX WAITIO_MPI_MAX
#define MPI_MIN WAITIO_MPI_MIN

#define MPI_Comm WAITIO_MPI_Comm
#define MPI_Datatype WAITIO_MPI_Datatype
#define MPI_Op WAITIO_MPI_Op
#define MPI_Request WAITIO_MPI_Request
#define MPI_Status WAITIO_MPI_Status

#define MPI_Comm_rank WAITIO_MPI_Comm_rank
#define MPI_Comm_size WAITIO_MPI_Comm_size
#define MPI_Isend WAITIO_MPI_Isend
#define MPI_Irecv WAITIO_MPI_Irecv
#define MPI_Send WAITIO_MPI_Send
#define MPI_Recv WAITIO_MPI_Recv
#define MPI_Wait WAITIO_MPI_Wait
#define MPI_Waitall WAITIO_MPI_Waitall
#define MPI_Bcast WAITIO_MPI_Bcast
#define MPI_Reduce WAITIO_MPI_Reduce
#define MPI_Allreduce WAITIO_MPI_Allreduce
#define MPI_Barrier WAITIO_MPI_Barrier

#endif
