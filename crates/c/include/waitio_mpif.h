! waitio_mpif.h: the numbers of WaitIO for Fortran, in fixed and in free
! form. The module waitio_mpif90 has them, and explicit interfaces.
      integer WAITIO_STATUS_SIZE, WAITIO_REQUEST_SIZE
      parameter (WAITIO_STATUS_SIZE=4, WAITIO_REQUEST_SIZE=22)
      integer WAITIO_MPI_STATUS_SIZE, WAITIO_MPI_REQUEST_SIZE
      parameter (WAITIO_MPI_STATUS_SIZE=4)
      parameter (WAITIO_MPI_REQUEST_SIZE=22)
      integer WAITIO_MPI_SUCCESS, WAITIO_MPI_COMM_NULL
      parameter (WAITIO_MPI_SUCCESS=0, WAITIO_MPI_COMM_NULL=0)
! Types of elements.
      integer WAITIO_MPI_INT
      parameter (WAITIO_MPI_INT=524289)
      integer WAITIO_MPI_LONG
      parameter (WAITIO_MPI_LONG=524290)
      integer WAITIO_MPI_CHAR
      parameter (WAITIO_MPI_CHAR=524291)
      integer WAITIO_MPI_FLOAT
      parameter (WAITIO_MPI_FLOAT=524292)
      integer WAITIO_MPI_DOUBLE
      parameter (WAITIO_MPI_DOUBLE=524293)
      integer WAITIO_MPI_SHORT
      parameter (WAITIO_MPI_SHORT=524294)
      integer WAITIO_MPI_LONG_LONG
      parameter (WAITIO_MPI_LONG_LONG=524295)
      integer WAITIO_MPI_UNSIGNED_CHAR
      parameter (WAITIO_MPI_UNSIGNED_CHAR=524296)
      integer WAITIO_MPI_UNSIGNED_SHORT
      parameter (WAITIO_MPI_UNSIGNED_SHORT=524297)
      integer WAITIO_MPI_UNSIGNED
      parameter (WAITIO_MPI_UNSIGNED=524298)
      integer WAITIO_MPI_UNSIGNED_LONG
      parameter (WAITIO_MPI_UNSIGNED_LONG=524299)
      integer WAITIO_MPI_UNSIGNED_LONG_LONG
      parameter (WAITIO_MPI_UNSIGNED_LONG_LONG=524300)
      integer WAITIO_MPI_SIGNED_CHAR
      parameter (WAITIO_MPI_SIGNED_CHAR=524301)
      integer WAITIO_MPI_BYTE
      parameter (WAITIO_MPI_BYTE=524302)
      integer WAITIO_MPI_C_BOOL
      parameter (WAITIO_MPI_C_BOOL=524303)
      integer WAITIO_MPI_LOGICAL
      parameter (WAITIO_MPI_LOGICAL=524304)
      integer WAITIO_MPI_COMPLEX
      parameter (WAITIO_MPI_COMPLEX=524305)
      integer WAITIO_MPI_DOUBLE_COMPLEX
      parameter (WAITIO_MPI_DOUBLE_COMPLEX=524306)
      integer WAITIO_MPI_INTEGER
      parameter (WAITIO_MPI_INTEGER=524289)
      integer WAITIO_MPI_REAL
      parameter (WAITIO_MPI_REAL=524292)
      integer WAITIO_MPI_REAL4
      parameter (WAITIO_MPI_REAL4=524292)
      integer WAITIO_MPI_DOUBLE_PRECISION
      parameter (WAITIO_MPI_DOUBLE_PRECISION=524293)
      integer WAITIO_MPI_REAL8
      parameter (WAITIO_MPI_REAL8=524293)
      integer WAITIO_MPI_INTEGER4
      parameter (WAITIO_MPI_INTEGER4=524289)
      integer WAITIO_MPI_INTEGER8
      parameter (WAITIO_MPI_INTEGER8=524290)
      integer WAITIO_MPI_CHARACTER
      parameter (WAITIO_MPI_CHARACTER=524291)
      integer WAITIO_MPI_LONG_LONG_INT
      parameter (WAITIO_MPI_LONG_LONG_INT=524295)
! How they are combined.
      integer WAITIO_MPI_SUM
      parameter (WAITIO_MPI_SUM=524289)
      integer WAITIO_MPI_MAX
      parameter (WAITIO_MPI_MAX=524290)
      integer WAITIO_MPI_MIN
      parameter (WAITIO_MPI_MIN=524291)
      integer WAITIO_MPI_PROD
      parameter (WAITIO_MPI_PROD=524292)
      integer WAITIO_MPI_LAND
      parameter (WAITIO_MPI_LAND=524293)
      integer WAITIO_MPI_BAND
      parameter (WAITIO_MPI_BAND=524294)
      integer WAITIO_MPI_LOR
      parameter (WAITIO_MPI_LOR=524295)
      integer WAITIO_MPI_BOR
      parameter (WAITIO_MPI_BOR=524296)
      integer WAITIO_MPI_LXOR
      parameter (WAITIO_MPI_LXOR=524297)
      integer WAITIO_MPI_BXOR
      parameter (WAITIO_MPI_BXOR=524298)
