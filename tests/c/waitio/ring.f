C     What ring.c does, in Fortran 77: nothing is declared but what is
C     used, and the communicator is a number by the implicit rules.
      program ring
      include 'waitio_mpif.h'
      integer nlong
      parameter (nlong=100000)
      double precision out(nlong), in(nlong), mine, most
      integer reqs(WAITIO_REQUEST_SIZE,4), stat(WAITIO_STATUS_SIZE,4)
      integer words(3), got(3), counts(64), all(64), code, sum, one
      integer blocks, block, rank, size, from, next
      real*8 world, heads
      call waitio_create_universe(world, ierr)
      if (ierr .ne. 0) stop 2
      call waitio_init(10, ierr)
      call waitio_pb_size(blocks, ierr)
      call waitio_pb_rank(block, ierr)
      call waitio_get_nprocs(counts, ierr)
      call waitio_group_rank(world, me, ierr)
      call waitio_mpi_comm_size_f(world, size, ierr)
      rank = me
      do 10 i = 1, block
         rank = rank - counts(i)
 10   continue
      from = mod(me + size - 1, size)
      next = mod(me + 1, size)
      words(1) = me
      words(2) = block
      words(3) = me * me
      do 20 i = 1, nlong
         out(i) = me + i - 1
 20   continue
      call waitio_mpi_irecv(got, 3, WAITIO_MPI_INTEGER, from, -7,
     &     world, reqs(1,1), ierr)
      if (ierr .ne. 0) stop 3
      call waitio_mpi_irecv_f(in, nlong, WAITIO_MPI_DOUBLE_PRECISION,
     &     from, 8, world, reqs(1,2), ierr)
      if (ierr .ne. 0) stop 4
      call waitio_mpi_isend_f(words, 3, WAITIO_MPI_INTEGER, next, -7,
     &     world, reqs(1,3), ierr)
      if (ierr .ne. 0) stop 5
      call waitio_mpi_isend(out, nlong, WAITIO_MPI_DOUBLE_PRECISION,
     &     next, 8, world, reqs(1,4), ierr)
      if (ierr .ne. 0) stop 6
      do 30 i = 1, 4
         stat(1,i) = 7
         stat(4,i) = 7
 30   continue
      call waitio_mpi_waitall(4, reqs, stat, ierr)
      if (ierr .ne. 0) stop 7
      if (stat(1,1) .ne. 0 .or. stat(4,4) .ne. 0) stop 8
      if (got(1) .ne. from .or. got(3) .ne. from * from) stop 9
      if (in(1) .ne. from .or. in(nlong) .ne. from+nlong-1) stop 10
      one = 1
      call waitio_mpi_allreduce(one, sum, 1, WAITIO_MPI_INTEGER,
     &     WAITIO_MPI_SUM, world, ierr)
      if (ierr .ne. 0 .or. sum .ne. size) stop 11
      mine = me
      call waitio_mpi_allreduce(mine, most, 1, WAITIO_MPI_REAL8,
     &     WAITIO_MPI_MAX, world, ierr)
      if (ierr .ne. 0 .or. most .ne. size - 1) stop 12
      code = 0
      if (me .eq. size - 1) code = 4242
      call waitio_mpi_bcast(code, 1, WAITIO_MPI_INTEGER, size - 1,
     &     world, ierr)
      if (ierr .ne. 0 .or. code .ne. 4242) stop 13
      call waitio_mpi_gather(me, all, 1, WAITIO_MPI_INTEGER, 0,
     &     world, ierr)
      if (ierr .ne. 0) stop 14
      call waitio_create_universe_pbhead(heads, ierr)
      call waitio_group_rank(heads, i, ierr)
      if (i .ge. 0) then
         call waitio_mpi_allgather(block, all, 1, WAITIO_MPI_INTEGER,
     &        heads, ierr)
         if (ierr .ne. 0 .or. all(blocks) .ne. blocks - 1) stop 15
      end if
      call waitio_mpi_barrier(world, ierr)
      if (ierr .ne. 0) stop 16
      write (*, '(A,I3,I3,A,I3)') 'ok', block, rank, ' of',
     &     counts(block + 1)
      end
