/*
 * waitio_mpi.h: WaitIO in the words of MPI.
 *
 * Every function has two names, waitio_mpi_isend and WAITIO_MPI_Isend, and means what that of MPI means, except that there are no wildcards,
 * that receives have no status, and that gather, allgather and alltoall have the short form below. Tags are ints. Functions give 0 if all is well.
 *
 * Compile with -lwaitio_mpi, or by pkg-config waitio_mpi. share/doc/kumiki/docs/join.md has more.
 */
#ifndef WAITIO_MPI_H_INCLUDED
#define WAITIO_MPI_H_INCLUDED

#include <waitio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef waitio_group_t WAITIO_MPI_Comm;
typedef waitio_req_t WAITIO_MPI_Request;
typedef int WAITIO_MPI_Datatype;
typedef int WAITIO_MPI_Op;
typedef int WAITIO_MPI_Status;

#define WAITIO_MPI_SUCCESS 0
#define WAITIO_MPI_COMM_NULL ((WAITIO_MPI_Comm)0)
#define WAITIO_MPI_STATUS_IGNORE ((int *)0)
#define WAITIO_MPI_STATUSES_IGNORE ((int *)0)
/* In place of the memory to send from, in reductions, and for a root and in allgather, gather and scatter: it is there already. */
#define WAITIO_MPI_IN_PLACE ((void *)1)

/* Integers that a Fortran program has for a status and for a request. */
#define WAITIO_STATUS_SIZE 4
#define WAITIO_REQUEST_SIZE 22
#define WAITIO_MPI_STATUS_SIZE WAITIO_STATUS_SIZE
#define WAITIO_MPI_REQUEST_SIZE WAITIO_REQUEST_SIZE

/* Types of elements, and those of Fortran. Types and operations of MPI have no meaning here. */
#define WAITIO_MPI_INT 0x80001
#define WAITIO_MPI_LONG 0x80002
#define WAITIO_MPI_CHAR 0x80003
#define WAITIO_MPI_FLOAT 0x80004
#define WAITIO_MPI_DOUBLE 0x80005
#define WAITIO_MPI_SHORT 0x80006
#define WAITIO_MPI_LONG_LONG 0x80007
#define WAITIO_MPI_UNSIGNED_CHAR 0x80008
#define WAITIO_MPI_UNSIGNED_SHORT 0x80009
#define WAITIO_MPI_UNSIGNED 0x8000a
#define WAITIO_MPI_UNSIGNED_LONG 0x8000b
#define WAITIO_MPI_UNSIGNED_LONG_LONG 0x8000c
#define WAITIO_MPI_SIGNED_CHAR 0x8000d
#define WAITIO_MPI_BYTE 0x8000e
#define WAITIO_MPI_C_BOOL 0x8000f
#define WAITIO_MPI_LOGICAL 0x80010
#define WAITIO_MPI_COMPLEX 0x80011
#define WAITIO_MPI_DOUBLE_COMPLEX 0x80012
#define WAITIO_MPI_INTEGER WAITIO_MPI_INT
#define WAITIO_MPI_REAL WAITIO_MPI_FLOAT
#define WAITIO_MPI_REAL4 WAITIO_MPI_FLOAT
#define WAITIO_MPI_DOUBLE_PRECISION WAITIO_MPI_DOUBLE
#define WAITIO_MPI_REAL8 WAITIO_MPI_DOUBLE
#define WAITIO_MPI_INTEGER4 WAITIO_MPI_INT
#define WAITIO_MPI_INTEGER8 WAITIO_MPI_LONG
#define WAITIO_MPI_CHARACTER WAITIO_MPI_CHAR
#define WAITIO_MPI_LONG_LONG_INT WAITIO_MPI_LONG_LONG

/* How elements are combined. Those with L take what is not 0 for true, and give 1 or 0. */
#define WAITIO_MPI_SUM 0x80001
#define WAITIO_MPI_MAX 0x80002
#define WAITIO_MPI_MIN 0x80003
#define WAITIO_MPI_PROD 0x80004
#define WAITIO_MPI_LAND 0x80005
#define WAITIO_MPI_BAND 0x80006
#define WAITIO_MPI_LOR 0x80007
#define WAITIO_MPI_BOR 0x80008
#define WAITIO_MPI_LXOR 0x80009
#define WAITIO_MPI_BXOR 0x8000a

/* Groups; they call waitio_init with what the environment says, unless it has been called. All processes, rank 0 of each block, and one block. */
int waitio_create_universe(WAITIO_MPI_Comm *comm);
int WAITIO_Create_universe(WAITIO_MPI_Comm *comm);
int waitio_create_universe_pbhead(WAITIO_MPI_Comm *comm);
int WAITIO_Create_universe_pbhead(WAITIO_MPI_Comm *comm);
int waitio_create_pbgroup(WAITIO_MPI_Comm *comm, int pbid);
int WAITIO_Create_pbgroup(WAITIO_MPI_Comm *comm, int pbid);

/* Messages. */
int waitio_mpi_isend(const void *buf, int count, WAITIO_MPI_Datatype type, int dest, int tag, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int WAITIO_MPI_Isend(const void *buf, int count, WAITIO_MPI_Datatype type, int dest, int tag, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int waitio_mpi_irecv(void *buf, int count, WAITIO_MPI_Datatype type, int source, int tag, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int WAITIO_MPI_Irecv(void *buf, int count, WAITIO_MPI_Datatype type, int source, int tag, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int waitio_mpi_send(const void *buf, int count, WAITIO_MPI_Datatype type, int dest, int tag, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Send(const void *buf, int count, WAITIO_MPI_Datatype type, int dest, int tag, WAITIO_MPI_Comm comm);
int waitio_mpi_recv(void *buf, int count, WAITIO_MPI_Datatype type, int source, int tag, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Recv(void *buf, int count, WAITIO_MPI_Datatype type, int source, int tag, WAITIO_MPI_Comm comm);

/* Waiting. A status is one int, 0 or 1 if the request failed; it may be NULL. */
int waitio_mpi_waitall(int count, WAITIO_MPI_Request requests[], int statuses[]);
int WAITIO_MPI_Waitall(int count, WAITIO_MPI_Request requests[], int statuses[]);
int waitio_mpi_wait(WAITIO_MPI_Request *request, int *status);
int WAITIO_MPI_Wait(WAITIO_MPI_Request *request, int *status);
int waitio_mpi_test(WAITIO_MPI_Request *request, int *flag, int *status);
int WAITIO_MPI_Test(WAITIO_MPI_Request *request, int *flag, int *status);
int waitio_mpi_waitany(int count, WAITIO_MPI_Request requests[], int *index, int *status);
int WAITIO_MPI_Waitany(int count, WAITIO_MPI_Request requests[], int *index, int *status);
int waitio_mpi_testany(int count, WAITIO_MPI_Request requests[], int *index, int *flag, int *status);
int WAITIO_MPI_Testany(int count, WAITIO_MPI_Request requests[], int *index, int *flag, int *status);
int waitio_mpi_cancel(WAITIO_MPI_Request *request);
int WAITIO_MPI_Cancel(WAITIO_MPI_Request *request);

/* Bytes of the next message. */
int waitio_mpi_probe(int source, int tag, WAITIO_MPI_Comm comm, size_t *bytes);
int WAITIO_MPI_Probe(int source, int tag, WAITIO_MPI_Comm comm, size_t *bytes);
int waitio_mpi_iprobe(int source, int tag, WAITIO_MPI_Comm comm, int *flag, size_t *bytes);
int WAITIO_MPI_Iprobe(int source, int tag, WAITIO_MPI_Comm comm, int *flag, size_t *bytes);

/* Collectives: all members call them. */
int waitio_mpi_barrier(WAITIO_MPI_Comm comm);
int WAITIO_MPI_Barrier(WAITIO_MPI_Comm comm);
int waitio_mpi_bcast(void *buf, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Bcast(void *buf, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_reduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Reduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_allreduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Allreduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, WAITIO_MPI_Comm comm);

/* The short form: count elements of each member. */
int waitio_mpi_gather(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Gather(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_allgather(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Allgather(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Comm comm);
int waitio_mpi_alltoall(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Alltoall(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Comm comm);

/* As MPI has them. */
int waitio_mpi_scatter(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, int recvcount,
    WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Scatter(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, int recvcount,
    WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_scatterv(const void *send, const int sendcounts[], const int displs[], WAITIO_MPI_Datatype sendtype, void *recv,
    int recvcount, WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Scatterv(const void *send, const int sendcounts[], const int displs[], WAITIO_MPI_Datatype sendtype, void *recv,
    int recvcount, WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_gatherv(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, const int recvcounts[],
    const int displs[], WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Gatherv(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, const int recvcounts[],
    const int displs[], WAITIO_MPI_Datatype recvtype, int root, WAITIO_MPI_Comm comm);
int waitio_mpi_allgatherv(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, const int recvcounts[],
    const int displs[], WAITIO_MPI_Datatype recvtype, WAITIO_MPI_Comm comm);
int WAITIO_MPI_Allgatherv(const void *send, int sendcount, WAITIO_MPI_Datatype sendtype, void *recv, const int recvcounts[],
    const int displs[], WAITIO_MPI_Datatype recvtype, WAITIO_MPI_Comm comm);

/* Collectives that are started, and waited for with the functions above. */
/* These do not wait for the others; but the first collective of a group, whichever it is, returns when all members have come to it. */
int waitio_mpi_ibarrier(WAITIO_MPI_Comm comm, WAITIO_MPI_Request *request);
int WAITIO_MPI_Ibarrier(WAITIO_MPI_Comm comm, WAITIO_MPI_Request *request);
int waitio_mpi_ibcast(void *buf, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm, WAITIO_MPI_Request *request);
int WAITIO_MPI_Ibcast(void *buf, int count, WAITIO_MPI_Datatype type, int root, WAITIO_MPI_Comm comm, WAITIO_MPI_Request *request);
int waitio_mpi_ireduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, int root, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int WAITIO_MPI_Ireduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, int root, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int waitio_mpi_iallreduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);
int WAITIO_MPI_Iallreduce(const void *send, void *recv, int count, WAITIO_MPI_Datatype type, WAITIO_MPI_Op op, WAITIO_MPI_Comm comm,
    WAITIO_MPI_Request *request);

/* Who is who: -1 for whoever is no member. Bytes of a type. */
int waitio_mpi_comm_rank(WAITIO_MPI_Comm comm, int *rank);
int WAITIO_MPI_Comm_rank(WAITIO_MPI_Comm comm, int *rank);
int waitio_mpi_comm_size(WAITIO_MPI_Comm comm, int *size);
int WAITIO_MPI_Comm_size(WAITIO_MPI_Comm comm, int *size);
int waitio_mpi_comm_free(WAITIO_MPI_Comm *comm);
int WAITIO_MPI_Comm_free(WAITIO_MPI_Comm *comm);
int waitio_mpi_type_size(WAITIO_MPI_Datatype type, int *size);
int WAITIO_MPI_Type_size(WAITIO_MPI_Datatype type, int *size);
#ifdef __cplusplus
}
#endif

#endif /* WAITIO_MPI_H_INCLUDED */
