! SPDX-License-Identifier: Apache-2.0
! Collectives that survive, called from Fortran: with mpif.h, with module mpi (-DFTCOLL_MPI) or with
! mpi_f08 (-DFTCOLL_F08). All calls are made while all live, and again once rank 1 has been killed.
#ifdef FTCOLL_F08
#define HANDLE(kind) type(kind)
#define NUMBER(handle) handle%MPI_VAL
#define MODULE use mpi_f08
#define HEADER
#elif defined(FTCOLL_MPI)
#define HANDLE(kind) integer
#define NUMBER(handle) handle
#define MODULE use mpi
#define HEADER
#else
#define HANDLE(kind) integer
#define NUMBER(handle) handle
#define MODULE
#define HEADER include 'mpif.h'
#endif

#ifdef FTCOLL_F08
subroutine greater(given, kept, length, datatype)
  use mpi_f08
  use iso_c_binding
  implicit none
  type(c_ptr), value :: given, kept
  integer :: length
  type(MPI_Datatype) :: datatype
  integer, pointer :: a(:), b(:)
  call c_f_pointer(given, a, [length])
  call c_f_pointer(kept, b, [length])
  b = max(a, b)
end subroutine
#else
subroutine greater(given, kept, length, datatype)
  implicit none
  integer :: length, datatype, given(length), kept(length)
  kept = max(given, kept)
end subroutine
#endif

! All four, with the constants that Fortran names by addresses. Adds to `wrong`.
subroutine make_calls(comm, lost, wrong)
  MODULE
  implicit none
  HEADER
  HANDLE(MPI_Comm), intent(in) :: comm
  integer, intent(in) :: lost
  integer, intent(inout) :: wrong
#ifdef FTCOLL_F08
  procedure(MPI_User_function) :: greater
#else
  external :: greater
#endif
  HANDLE(MPI_Op) :: op
  HANDLE(MPI_Datatype) :: there
  integer :: rank, size, wanted, one(3), all(3), root, e, code, contributions, missing(2)
  integer, save, target :: away(3)
  integer(MPI_ADDRESS_KIND) :: at(1)
  call MPI_Comm_rank(comm, rank, e)
  call MPI_Comm_size(comm, size, e)
  root = size - 1
  wanted = 2**size - 1
  if (lost >= 0) wanted = wanted - 2**lost
  one = [2**rank, 0, 2**rank]

  all = -1
  call MPI_Allreduce(one, all, 3, MPI_INTEGER, MPI_SUM, comm, e)
  call expect(all, [wanted, 0, wanted], e, 1, wrong)
  all = one
  call MPI_Allreduce(MPI_IN_PLACE, all, 3, MPI_INTEGER, MPI_SUM, comm, e)
  call expect(all, [wanted, 0, wanted], e, 2, wrong)

  all = one
  if (rank == root) then
    call MPI_Reduce(MPI_IN_PLACE, all, 3, MPI_INTEGER, MPI_SUM, root, comm, e)
    call expect(all, [wanted, 0, wanted], e, 3, wrong)
  else
    call MPI_Reduce(one, all, 3, MPI_INTEGER, MPI_SUM, root, comm, e)
    call expect(all, one, e, 4, wrong)
  end if

  all = rank
  call MPI_Bcast(all, 3, MPI_INTEGER, root, comm, e)
  call expect(all, [root, root, root], e, 5, wrong)

  away = [rank, 2 * rank, 3 * rank]
  call MPI_Get_address(away, at(1), e)
  call MPI_Type_create_hindexed(1, [3], at, MPI_INTEGER, there, e)
  call MPI_Type_commit(there, e)
  call MPI_Bcast(MPI_BOTTOM, 1, there, root, comm, e)
  call expect(away, [root, 2 * root, 3 * root], e, 6, wrong)
  call MPI_Type_free(there, e)

  call MPI_Op_create(greater, .true., op, e)
  call MPI_Allreduce([rank, -rank, 5], all, 3, MPI_INTEGER, op, comm, e)
  call expect(all, [size - 1, 0, 5], e, 7, wrong)
  call MPI_Op_free(op, e)

  call MPI_Barrier(comm, e)
  call ftc_last(NUMBER(comm), code, contributions, missing, 2)
  if (lost < 0) then
    call expect([code, contributions, 0], [0, size, 0], e, 8, wrong)
  else
    call expect([code, contributions, missing(1)], [0, size - 1, lost], e, 9, wrong)
  end if
contains
  subroutine expect(got, wants, error, number, count)
    integer, intent(in) :: got(3), wants(3), error, number
    integer, intent(inout) :: count
    if (error == MPI_SUCCESS .and. all_same(got, wants)) return
    count = count + 1
    write (*, *) 'rank', rank, 'check', number, 'error', error, 'has', got, 'and wants', wants
  end subroutine

  logical function all_same(a, b)
    integer, intent(in) :: a(3), b(3)
    all_same = a(1) == b(1) .and. a(2) == b(2) .and. a(3) == b(3)
  end function
end subroutine

program survivors
  use iso_c_binding
  MODULE
  implicit none
  HEADER
  interface
    function raise(signal) bind(C, name='raise') result(failed)
      import :: c_int
      integer(c_int), value :: signal
      integer(c_int) :: failed
    end function
    subroutine make_calls(comm, lost, wrong)
      MODULE
      HANDLE(MPI_Comm), intent(in) :: comm
      integer, intent(in) :: lost
      integer, intent(inout) :: wrong
    end subroutine
  end interface
  HANDLE(MPI_Comm) :: other
  HANDLE(MPI_Info) :: info
  integer :: rank, wrong, e, level
  logical :: is_over
  wrong = 0
#ifdef FTCOLL_F08
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)
#else
  call MPI_Init(e)
#endif
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, e)
  call MPI_Comm_dup(MPI_COMM_WORLD, other, e)
  call ftc_mark(NUMBER(MPI_COMM_WORLD), e)
  if (e /= MPI_SUCCESS) wrong = wrong + 1
  call MPI_Info_create(info, e)
  call MPI_Info_set(info, 'ftcoll', 'true', e)
  call MPI_Comm_set_info(other, info, e)
  call MPI_Info_free(info, e)
  call make_calls(MPI_COMM_WORLD, -1, wrong)
  call make_calls(other, -1, wrong)
  if (rank == 1) e = raise(9)
  call make_calls(MPI_COMM_WORLD, 1, wrong)
  call make_calls(other, 1, wrong)
  call MPI_Finalize(e)
  call MPI_Finalized(is_over, e)
  if (.not. is_over) wrong = wrong + 1
  if (wrong > 0) stop 1
  write (*, '(a,i0,a)') 'rank ', rank, ' is content'
end program
