"""What ring.c does, in Python. Nothing says what functions return: a handle fits into an int. An argument names an MPI to load."""
import ctypes
import os
import sys

INT, DOUBLE, SUM, MAX = 0x80001, 0x80005, 0x80001, 0x80002
LONG = 100000


class Request(ctypes.Structure):
    _fields_ = [("words", ctypes.c_ulong * 11)]


def check(is_so, what):
    if not is_so:
        library.waitio_error.restype = ctypes.c_char_p
        sys.exit(f"this should be: {what} ({library.waitio_error().decode()})")


def number(function, *arguments):
    value = ctypes.c_int(-99)
    check(function(*arguments, ctypes.byref(value)) == 0, function.__name__)
    return value.value


library = ctypes.CDLL(sys.argv[1])
mpi = None
if len(sys.argv) > 2:
    # For this program alone (RTLD_LOCAL), as extension modules load it.
    mpi = ctypes.CDLL(sys.argv[2])
    check(mpi.MPI_Init(None, None) == 0, "MPI_Init")

world = ctypes.c_void_p()
check(library.waitio_create_universe(ctypes.byref(world)) == 0, "universe")
blocks, block = number(library.waitio_pb_size), number(library.waitio_pb_rank)
counts = (ctypes.c_int * 64)()
check(library.waitio_get_nprocs(counts) == blocks, "blocks")
me, size = number(library.waitio_group_rank, world), number(library.waitio_mpi_comm_size, world)
rank = me - sum(counts[:block])
if mpi is not None and "WANT" in os.environ:
    check(f"{rank} of {counts[block]}" in os.environ["WANT"].split(","), "the place in MPI")

before, behind = (me + size - 1) % size, (me + 1) % size
words, got = (ctypes.c_int * 3)(me, block, me * me), (ctypes.c_int * 3)()
out, into = (ctypes.c_double * LONG)(*range(me, me + LONG)), (ctypes.c_double * LONG)()
requests = (Request * 4)()
at = [ctypes.byref(requests, 88 * index) for index in range(4)]
check(ctypes.sizeof(Request) == 88, "88 bytes")
check(library.waitio_mpi_irecv(got, 3, INT, before, -7, world, at[0]) == 0, "irecv")
check(library.waitio_mpi_irecv(into, LONG, DOUBLE, before, 8, world, at[1]) == 0, "irecv")
check(library.waitio_mpi_isend(words, 3, INT, behind, -7, world, at[2]) == 0, "isend")
check(library.waitio_mpi_isend(out, LONG, DOUBLE, behind, 8, world, at[3]) == 0, "isend")
check(library.waitio_mpi_waitall(4, requests, None) == 0, "waitall")
check(got[0] == before and into[LONG - 1] == before + LONG - 1, "what came")

one, total = ctypes.c_int(1), ctypes.c_int()
check(library.waitio_mpi_allreduce(ctypes.byref(one), ctypes.byref(total), 1, INT, SUM, world) == 0, "allreduce")
check(total.value == size, "the sum")
mine, most = ctypes.c_double(me), ctypes.c_double()
check(library.waitio_mpi_allreduce(ctypes.byref(mine), ctypes.byref(most), 1, DOUBLE, MAX, world) == 0, "allreduce")
check(most.value == size - 1, "the largest")
code = ctypes.c_int(4242 if me == size - 1 else 0)
check(library.waitio_mpi_bcast(ctypes.byref(code), 1, INT, size - 1, world) == 0 and code.value == 4242, "bcast")
mine, gathered = ctypes.c_int(me), (ctypes.c_int * 64)()
check(library.waitio_mpi_gather(ctypes.byref(mine), gathered, 1, INT, 0, world) == 0, "gather")
check(me != 0 or gathered[:size] == list(range(size)), "what was gathered")
heads = ctypes.c_void_p()
check(library.waitio_create_universe_pbhead(ctypes.byref(heads)) == 0, "heads")
if number(library.waitio_group_rank, heads) >= 0:
    mine.value = block
    check(library.waitio_mpi_allgather(ctypes.byref(mine), gathered, 1, INT, heads) == 0, "allgather")
    check(gathered[:blocks] == list(range(blocks)), "what was gathered")

# A handle that a function returns: an int, if nobody says otherwise; and a filter in Python.
FILTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)
takes = FILTER(lambda pbid, rank: 1)
filters, order = (FILTER * blocks)(*[takes] * blocks), (ctypes.c_int * blocks)(*range(blocks))
group = library.waitio_create_group(5, filters, order)
check(0 < group < 2**31 and number(library.waitio_group_rank, group) == me, "a handle in an int")
check(library.waitio_mpi_barrier(world) == 0, "barrier")
# In one piece: launchers put the lines of several processes together.
sys.stdout.write(f"ok {block} {rank} of {counts[block]}\n")
sys.stdout.flush()
if mpi is not None:
    library.waitio_finalize()
    mpi.MPI_Finalize()
