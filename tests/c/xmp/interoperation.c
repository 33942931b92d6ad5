/* MPI beside XcalableMP: a program that uses both, and with -DLIBRARY one of MPI that calls an XMP library. */
#ifdef WITH_MPI
#include <mpi.h>
#endif
#include "check.h"

#ifdef WITH_MPI
static void both(void) {
  kxmp_nodes *p = NULL;
  kxmp_task k;
  long star = KXMP_STAR;
  int n = xmp_all_num_nodes(), me = xmpc_all_node_num(), size, rank, sum = 0, one = 1;
  MPI_Comm comm, again;
  p = kxmp_nodes_make(&p, HERE, "p", 1, &star, KXMP_ENTIRE, executing());
  comm = xmp_get_mpi_comm();
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  CHECK(size == n && rank == me);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == n);
  if (kxmp_task_begin(&k, HERE, at1(p, range(n / 2, KXMP_TO, 1)), 0)) {
    comm = xmp_get_mpi_comm();
    again = xmp_get_mpi_comm();
    CHECK(comm == again);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    CHECK(size == n - n / 2 && rank == me - n / 2);
  }
  kxmp_task_end(&k);
  CHECK(xmp_nodes_comm(p, (void **)&comm) == 0);
  kxmp_reduction(HERE, executing(), KXMP_SUM, KXMP_INT, &one, 1, KXMP_SYNC);
  CHECK(one == n);
}
#endif

int main(int argc, char **argv) {
#ifndef WITH_MPI
  int count;
  kxmp_start(&argc, &argv);
  CHECK(kxmp_members(NULL, &count)[0] == 0 && count == xmp_num_nodes());
  CHECK(kxmp_communicator(NULL, &count) != NULL && count == 1);
  if (argc > 1) kxmp_refuse("on purpose");
  xmp_finalize();
#elif defined(LIBRARY)
  int turn;
  MPI_Init(&argc, &argv);
  for (turn = 0; turn < 1; turn++) {
    xmp_init(MPI_COMM_WORLD);
    both();
    if (xmpc_all_node_num() == 0) printf("library: ok\n");
    xmp_finalize();
  }
  MPI_Finalize();
#else
  kxmp_start(&argc, &argv);
  xmp_init_mpi(&argc, &argv);
  both();
  if (xmpc_all_node_num() == 0) printf("interoperation: ok\n");
  xmp_finalize_mpi();
#endif
  return 0;
}
