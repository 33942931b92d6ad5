! waitio_mpif90: WaitIO for Fortran, with explicit interfaces.
!
!   use waitio_mpif90
!   integer :: comm, request(WAITIO_REQUEST_SIZE), status(WAITIO_STATUS_SIZE), ierr
!
! A communicator is an integer. Memory to send from and to receive into may be of any type and rank, but must lie together in memory: a section
! with gaps would be copied before the call and freed after it, which is too early for what is only started. Every name exists with _f at its end, too;
! programs that declare nothing call the same routines. To take everybody into a group: integer, external :: truef.
module waitio_mpif90
  implicit none
  public

  integer, parameter :: WAITIO_STATUS_SIZE = 4, WAITIO_REQUEST_SIZE = 22
  integer, parameter :: WAITIO_MPI_STATUS_SIZE = WAITIO_STATUS_SIZE, WAITIO_MPI_REQUEST_SIZE = WAITIO_REQUEST_SIZE
  integer, parameter :: WAITIO_MPI_SUCCESS = 0, WAITIO_MPI_COMM_NULL = 0

  ! Types of elements.
  integer, parameter :: WAITIO_MPI_INT = 524289
  integer, parameter :: WAITIO_MPI_LONG = 524290
  integer, parameter :: WAITIO_MPI_CHAR = 524291
  integer, parameter :: WAITIO_MPI_FLOAT = 524292
  integer, parameter :: WAITIO_MPI_DOUBLE = 524293
  integer, parameter :: WAITIO_MPI_SHORT = 524294
  integer, parameter :: WAITIO_MPI_LONG_LONG = 524295
  integer, parameter :: WAITIO_MPI_UNSIGNED_CHAR = 524296
  integer, parameter :: WAITIO_MPI_UNSIGNED_SHORT = 524297
  integer, parameter :: WAITIO_MPI_UNSIGNED = 524298
  integer, parameter :: WAITIO_MPI_UNSIGNED_LONG = 524299
  integer, parameter :: WAITIO_MPI_UNSIGNED_LONG_LONG = 524300
  integer, parameter :: WAITIO_MPI_SIGNED_CHAR = 524301
  integer, parameter :: WAITIO_MPI_BYTE = 524302
  integer, parameter :: WAITIO_MPI_C_BOOL = 524303
  integer, parameter :: WAITIO_MPI_LOGICAL = 524304
  integer, parameter :: WAITIO_MPI_COMPLEX = 524305
  integer, parameter :: WAITIO_MPI_DOUBLE_COMPLEX = 524306
  integer, parameter :: WAITIO_MPI_INTEGER = WAITIO_MPI_INT
  integer, parameter :: WAITIO_MPI_REAL = WAITIO_MPI_FLOAT
  integer, parameter :: WAITIO_MPI_REAL4 = WAITIO_MPI_FLOAT
  integer, parameter :: WAITIO_MPI_DOUBLE_PRECISION = WAITIO_MPI_DOUBLE
  integer, parameter :: WAITIO_MPI_REAL8 = WAITIO_MPI_DOUBLE
  integer, parameter :: WAITIO_MPI_INTEGER4 = WAITIO_MPI_INT
  integer, parameter :: WAITIO_MPI_INTEGER8 = WAITIO_MPI_LONG
  integer, parameter :: WAITIO_MPI_CHARACTER = WAITIO_MPI_CHAR
  integer, parameter :: WAITIO_MPI_LONG_LONG_INT = WAITIO_MPI_LONG_LONG

  ! How they are combined.
  integer, parameter :: WAITIO_MPI_SUM = 524289
  integer, parameter :: WAITIO_MPI_MAX = 524290
  integer, parameter :: WAITIO_MPI_MIN = 524291
  integer, parameter :: WAITIO_MPI_PROD = 524292
  integer, parameter :: WAITIO_MPI_LAND = 524293
  integer, parameter :: WAITIO_MPI_BAND = 524294
  integer, parameter :: WAITIO_MPI_LOR = 524295
  integer, parameter :: WAITIO_MPI_BOR = 524296
  integer, parameter :: WAITIO_MPI_LXOR = 524297
  integer, parameter :: WAITIO_MPI_BXOR = 524298

  abstract interface
    ! Not zero: the group takes this rank of this block.
    integer function waitio_filter(pbid, rank)
      integer, intent(in) :: pbid, rank
    end function
  end interface

  interface
    subroutine waitio_init(timeout, ierr)
      integer, intent(in) :: timeout
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_finalize(ierr)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_pb_size(size, ierr)
      integer, intent(out) :: size
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_pb_rank(rank, ierr)
      integer, intent(out) :: rank
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_get_nprocs(counts, ierr)
      integer, intent(out) :: counts(*)
      integer, intent(out) :: ierr
    end subroutine
    ! One function for all blocks.
    subroutine waitio_create_group(gid, take, order, group, ierr)
      import :: waitio_filter
      integer, intent(in) :: gid
      procedure(waitio_filter) :: take
      integer, intent(in) :: order(*)
      integer, intent(out) :: group
      integer, intent(out) :: ierr
    end subroutine
    ! The ranks of block 0, a negative number, those of block 1, a negative number, and so on.
    subroutine waitio_create_group_wranks(gid, ranks, order, group, ierr)
      integer, intent(in) :: gid
      integer, intent(in) :: ranks(*)
      integer, intent(in) :: order(*)
      integer, intent(out) :: group
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_free_group(group, ierr)
      integer, intent(inout) :: group
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_group_rank(group, rank, ierr)
      integer, intent(in) :: group
      integer, intent(out) :: rank
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_group_size(group, size, ierr)
      integer, intent(in) :: group
      integer, intent(out) :: size
      integer, intent(out) :: ierr
    end subroutine
    ! Bytes and tag are integers of four bytes here.
    subroutine waitio_isend(group, peer, buf, len, tag, req, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: group
      integer, intent(in) :: peer
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: len
      integer, intent(in) :: tag
      integer, intent(out) :: req(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_irecv(group, peer, buf, len, tag, req, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: group
      integer, intent(in) :: peer
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: len
      integer, intent(in) :: tag
      integer, intent(out) :: req(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_wait(req, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_test(req, done, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE)
      logical, intent(out) :: done
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_waitall(n, req, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: n
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: ierr
    end subroutine
    ! Indices count from 1; 0 is none.
    subroutine waitio_waitany(n, req, index, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: n
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: index
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_testany(n, req, index, done, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: n
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: index
      logical, intent(out) :: done
      integer, intent(out) :: ierr
    end subroutine
    ! Bytes are integers of eight bytes here.
    subroutine waitio_probe(group, peer, tag, len, ierr)
      integer, intent(in) :: group
      integer, intent(in) :: peer
      integer, intent(in) :: tag
      integer(8), intent(out) :: len
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_iprobe(group, peer, tag, found, len, ierr)
      integer, intent(in) :: group
      integer, intent(in) :: peer
      integer, intent(in) :: tag
      logical, intent(out) :: found
      integer(8), intent(out) :: len
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_cancel(req, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(inout) :: req(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    ! What went wrong last in this thread.
    subroutine waitio_error(text, ierr)
      character(len=*), intent(out) :: text
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_create_universe(comm, ierr)
      integer, intent(out) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_create_universe_pbhead(comm, ierr)
      integer, intent(out) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_create_pbgroup(comm, pbid, ierr)
      integer, intent(out) :: comm
      integer, intent(in) :: pbid
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_isend(buf, count, datatype, dest, tag, comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: dest
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_irecv(buf, count, datatype, source, tag, comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: source
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_send(buf, count, datatype, dest, tag, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: dest
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_recv(buf, count, datatype, source, tag, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: source
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_waitall(count, requests, statuses, ierr)
      import :: WAITIO_REQUEST_SIZE, WAITIO_STATUS_SIZE
      integer, intent(in) :: count
      integer, intent(inout) :: requests(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: statuses(WAITIO_STATUS_SIZE, *)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_wait(request, status, ierr)
      import :: WAITIO_REQUEST_SIZE, WAITIO_STATUS_SIZE
      integer, intent(inout) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: status(WAITIO_STATUS_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_test(request, flag, status, ierr)
      import :: WAITIO_REQUEST_SIZE, WAITIO_STATUS_SIZE
      integer, intent(inout) :: request(WAITIO_REQUEST_SIZE)
      logical, intent(out) :: flag
      integer, intent(out) :: status(WAITIO_STATUS_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_waitany(count, requests, index, status, ierr)
      import :: WAITIO_REQUEST_SIZE, WAITIO_STATUS_SIZE
      integer, intent(in) :: count
      integer, intent(inout) :: requests(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: index
      integer, intent(out) :: status(WAITIO_STATUS_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_testany(count, requests, index, flag, status, ierr)
      import :: WAITIO_REQUEST_SIZE, WAITIO_STATUS_SIZE
      integer, intent(in) :: count
      integer, intent(inout) :: requests(WAITIO_REQUEST_SIZE, *)
      integer, intent(out) :: index
      logical, intent(out) :: flag
      integer, intent(out) :: status(WAITIO_STATUS_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_cancel(request, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(inout) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_probe(source, tag, comm, bytes, ierr)
      integer, intent(in) :: source
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      integer(8), intent(out) :: bytes
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_iprobe(source, tag, comm, flag, bytes, ierr)
      integer, intent(in) :: source
      integer, intent(in) :: tag
      integer, intent(in) :: comm
      logical, intent(out) :: flag
      integer(8), intent(out) :: bytes
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_barrier(comm, ierr)
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_bcast(buf, count, datatype, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_reduce(send, recv, count, datatype, op, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: op
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_allreduce(send, recv, count, datatype, op, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: op
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    ! Count elements of each member.
    subroutine waitio_mpi_gather(send, recv, count, datatype, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_allgather(send, recv, count, datatype, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_alltoall(send, recv, count, datatype, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    ! As MPI has them.
    subroutine waitio_mpi_scatter(send, sendcount, sendtype, recv, recvcount, recvtype, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      integer, intent(in) :: sendcount
      integer, intent(in) :: sendtype
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: recvcount
      integer, intent(in) :: recvtype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_scatterv(send, sendcounts, displs, sendtype, recv, recvcount, recvtype, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      integer, intent(in) :: sendcounts(*)
      integer, intent(in) :: displs(*)
      integer, intent(in) :: sendtype
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: recvcount
      integer, intent(in) :: recvtype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_gatherv(send, sendcount, sendtype, recv, recvcounts, displs, recvtype, root, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      integer, intent(in) :: sendcount
      integer, intent(in) :: sendtype
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: recvcounts(*)
      integer, intent(in) :: displs(*)
      integer, intent(in) :: recvtype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_allgatherv(send, sendcount, sendtype, recv, recvcounts, displs, recvtype, comm, ierr)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      integer, intent(in) :: sendcount
      integer, intent(in) :: sendtype
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: recvcounts(*)
      integer, intent(in) :: displs(*)
      integer, intent(in) :: recvtype
      integer, intent(in) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_ibarrier(comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_ibcast(buf, count, datatype, root, comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*) :: buf
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_ireduce(send, recv, count, datatype, op, root, comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: op
      integer, intent(in) :: root
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_iallreduce(send, recv, count, datatype, op, comm, request, ierr)
      import :: WAITIO_REQUEST_SIZE
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: send
      type(*), dimension(*) :: send
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: recv
      type(*), dimension(*) :: recv
      integer, intent(in) :: count
      integer, intent(in) :: datatype
      integer, intent(in) :: op
      integer, intent(in) :: comm
      integer, intent(out) :: request(WAITIO_REQUEST_SIZE)
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_comm_rank(comm, rank, ierr)
      integer, intent(in) :: comm
      integer, intent(out) :: rank
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_comm_size(comm, size, ierr)
      integer, intent(in) :: comm
      integer, intent(out) :: size
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_comm_free(comm, ierr)
      integer, intent(inout) :: comm
      integer, intent(out) :: ierr
    end subroutine
    subroutine waitio_mpi_type_size(datatype, size, ierr)
      integer, intent(in) :: datatype
      integer, intent(out) :: size
      integer, intent(out) :: ierr
    end subroutine
  end interface
end module
