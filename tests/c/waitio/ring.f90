! What ring.c does, in Fortran 90 with the module; with -DWITH_MPI there is an MPI.
program ring
  use waitio_mpif90
#ifdef WITH_MPI
  use mpi
#endif
  implicit none
  integer, parameter :: long = 100000
  real(8), allocatable :: outgoing(:), incoming(:)
  real(8) :: most
  complex :: wave, waves
  logical :: flag, yes
  integer :: requests(WAITIO_REQUEST_SIZE, 4), statuses(WAITIO_STATUS_SIZE, 4), ierr
  integer :: world, heads, odd, few, me, members, blocks, block, rank, from, next, at, index
  integer :: words(3), got(3), counts(64), all(64), code, total
  integer(8) :: bytes
  character(len=200) :: text
  integer, external :: truef
#ifdef WITH_MPI
  integer :: mpi_rank, mpi_ranks
  call MPI_Init(ierr)
#endif

  call waitio_create_universe(world, ierr)
  call check(ierr == 0, 'universe')
  call waitio_pb_size(blocks, ierr)
  call waitio_pb_rank(block, ierr)
  call waitio_get_nprocs(counts, ierr)
  call check(ierr == 0, 'processes of blocks')
  call waitio_mpi_comm_rank(world, me, ierr)
  call waitio_mpi_comm_size(world, members, ierr)
  rank = me - sum(counts(1:block))
#ifdef WITH_MPI
  call MPI_Comm_rank(MPI_COMM_WORLD, mpi_rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, mpi_ranks, ierr)
  call check(mpi_rank == rank .and. mpi_ranks == counts(block + 1), 'the place in MPI')
#endif
  from = mod(me + members - 1, members)
  next = mod(me + 1, members)

  allocate (outgoing(long), incoming(long))
  words = [me, block, me * me]
  outgoing = [(real(me + at, 8), at = 0, long - 1)]
  call waitio_mpi_irecv(got, 3, WAITIO_MPI_INTEGER, from, -7, world, requests(:, 1), ierr)
  call waitio_mpi_irecv(incoming, long, WAITIO_MPI_DOUBLE_PRECISION, from, 8, world, requests(:, 2), ierr)
  call waitio_mpi_isend(words, 3, WAITIO_MPI_INTEGER, next, -7, world, requests(:, 3), ierr)
  call waitio_mpi_isend(outgoing, long, WAITIO_MPI_DOUBLE_PRECISION, next, 8, world, requests(:, 4), ierr)
  call waitio_mpi_waitany(4, requests, index, statuses(:, 1), ierr)
  call check(ierr == 0 .and. index >= 1 .and. index <= 4, 'one of four')
  call waitio_mpi_waitall(4, requests, statuses, ierr)
  call check(ierr == 0 .and. all_zero(statuses), 'four')
  call check(got(1) == from .and. incoming(long) == from + long - 1, 'what came')
  call waitio_mpi_waitany(4, requests, index, statuses(:, 1), ierr)
  call check(ierr == 0 .and. index == 0, 'none of four')

  ! What the others do.
  code = 1
  call waitio_mpi_allreduce(code, total, 1, WAITIO_MPI_INTEGER, WAITIO_MPI_SUM, world, ierr)
  call check(ierr == 0 .and. total == members, 'sum')
  call waitio_mpi_allreduce(real(me, 8), most, 1, WAITIO_MPI_REAL8, WAITIO_MPI_MAX, world, ierr)
  call check(ierr == 0 .and. most == members - 1, 'largest')
  code = merge(4242, 0, me == members - 1)
  call waitio_mpi_bcast(code, 1, WAITIO_MPI_INTEGER, members - 1, world, ierr)
  call check(ierr == 0 .and. code == 4242, 'broadcast')
  call waitio_mpi_gather(me, all, 1, WAITIO_MPI_INTEGER, 0, world, ierr)
  call waitio_create_universe_pbhead(heads, ierr)
  call waitio_group_rank(heads, at, ierr)
  if (at >= 0) then
    call waitio_mpi_allgather(block, all, 1, WAITIO_MPI_INTEGER, heads, ierr)
    call check(ierr == 0 .and. all(blocks) == blocks - 1, 'heads')
  end if

  ! By itself: a block of one language may do more.
  call waitio_create_pbgroup(few, block, ierr)
  wave = (0.0, 1.0)
  call waitio_mpi_allreduce(wave, waves, 1, WAITIO_MPI_COMPLEX, WAITIO_MPI_SUM, few, ierr)
  call check(ierr == 0 .and. aimag(waves) == counts(block + 1), 'complex')
  flag = rank == 0
  call waitio_mpi_allreduce(flag, yes, 1, WAITIO_MPI_LOGICAL, WAITIO_MPI_LOR, few, ierr)
  call check(ierr == 0 .and. yes, 'logical')
  call waitio_create_group(11, truef, [(at, at = 1, blocks)], odd, ierr)
  call waitio_group_size(odd, at, ierr)
  call check(ierr == 0 .and. at == members, 'by a function')
  call waitio_create_group_wranks(12, [([0, -1], at = 1, blocks)], [(at, at = 1, blocks)], odd, ierr)
  call waitio_group_size(odd, at, ierr)
  call check(ierr == 0 .and. at == blocks, 'by lists')
  call waitio_isend(few, rank, words, 12, 3, requests(:, 1), ierr)
  call waitio_probe(few, rank, 3, bytes, ierr)
  call check(ierr == 0 .and. bytes == 12, 'probe')
  got = 0
  call waitio_irecv(few, rank, got, 12, 3, requests(:, 2), ierr)
  call waitio_wait(requests(:, 2), ierr)
  call check(ierr == 0 .and. got(3) == me * me, 'to itself')
  call waitio_test(requests(:, 1), flag, ierr)
  call waitio_wait(requests(:, 1), ierr)
  call waitio_mpi_send(me, 1, 5, 0, 0, few, ierr)
  call check(ierr /= 0, 'a wrong type')
  call waitio_error(text, ierr)
  call check(index_of(text, 'type') > 0, 'a message')
  call waitio_mpi_comm_free(few, ierr)
  call check(ierr == 0 .and. few == WAITIO_MPI_COMM_NULL, 'freed')
  call waitio_mpi_barrier(world, ierr)
  call check(ierr == 0, 'barrier')
  print '(A,I3,I3,A,I3)', 'ok', block, rank, ' of', counts(block + 1)
#ifdef WITH_MPI
  call waitio_finalize(ierr)
  call MPI_Finalize(ierr)
#endif

contains

  subroutine check(is_so, what)
    logical, intent(in) :: is_so
    character(len=*), intent(in) :: what
    character(len=200) :: why
    integer :: code
    if (is_so) return
    call waitio_error(why, code)
    print *, 'this should be: ', what, ' ', trim(why)
    stop 3
  end subroutine

  logical function all_zero(numbers)
    integer, intent(in) :: numbers(:, :)
    all_zero = maxval(abs(numbers)) == 0
  end function

  integer function index_of(whole, part)
    character(len=*), intent(in) :: whole, part
    integer :: i
    index_of = 0
    do i = 1, len(whole) - len(part) + 1
      if (whole(i:i + len(part) - 1) == part) index_of = i
    end do
  end function
end program
