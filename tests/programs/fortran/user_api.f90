! SPDX-License-Identifier: Apache-2.0
! A checkpoint-aware program in Fortran: the whole of module fermata. All ranks ask for a checkpoint;
! what they print and leave as checksum is the same whether they continued or were restarted.
module counting
  use, intrinsic :: iso_c_binding
  use fermata, only: fermata_before
  implicit none
  integer(c_int), target, volatile :: calls(0:2) = 0
  integer :: saves = 0
contains
  subroutine count_call(when, argument) bind(c)
    integer(c_int), value :: when
    type(c_ptr), value :: argument
    if (c_associated(argument)) calls(when) = calls(when) + 1
  end subroutine

  integer(c_int) function save_nothing(directory, argument) bind(c)
    character(kind=c_char), intent(in) :: directory(*)
    type(c_ptr), value :: argument
    saves = saves + 1
    save_nothing = merge(0, 1, directory(1) == '/' .and. .not. c_associated(argument))
  end function
end module

program say
  use mpi
  use, intrinsic :: iso_c_binding
  use fermata
  use counting
  implicit none
  integer, parameter :: words = 1000000
  integer(8), allocatable, target :: scratch(:)
  integer :: ierr, rank, code, there
  integer(c_size_t) :: bytes
  character(len=200) :: message
  integer(c_int), target :: token

  call mpi_init(ierr)
  call mpi_comm_rank(mpi_comm_world, rank, ierr)
  there = merge(0, fermata_absent, fermata_is_here())
  if (rank == 0) print '(2a)', 'version ', trim(merge('none            ', fermata_version(), &
                                                       .not. fermata_is_here()))
  call expect(fermata_critical_begin('fortran') == there, 'begin')
  call expect(fermata_critical_end() == there, 'end')
  call expect(fermata_critical_end() == merge(fermata_misuse, there, there == 0), 'misuse')

  if (rank == 0) print '(3a)', 'state "', fermata_self_state(), '"'
  call expect(fermata_self_save(save_nothing, c_null_ptr) == there, 'self')
  allocate(scratch(words))
  scratch = 7
  bytes = 8_c_size_t * words
  call expect(fermata_exclude(c_loc(scratch), bytes) == there, 'exclude')
  call expect(fermata_callback(fermata_on_main_thread, count_call, c_loc(token)) == there, 'add')
  code = fermata_checkpoint(message)
  select case (code)
  case (fermata_committed)
    call expect(index(message, 'is committed') > 0, 'message')
    call expect(calls(0) > 0 .neqv. saves > 0, 'either callbacks or its own function')
    call expect(calls(0) == calls(1) .and. calls(2) == 0, 'continue')
    call expect(all(scratch == 7), 'kept')
    print '(a,i0,a)', 'rank ', rank, ': committed 0'
  case (fermata_restarted)
    call expect(calls(0) == calls(1) + 1 .and. calls(2) == 1, 'restart')
    call expect(count(scratch == 0) >= words - 1024, 'left out')
    print '(a,i0,a)', 'rank ', rank, ': restarted 1'
  case default
    call expect(code == there .and. code == fermata_absent, trim(message))
  end select
  call expect(fermata_no_callback(fermata_on_main_thread, count_call, c_loc(token)) == there, 'take')
  call expect(fermata_include(c_loc(scratch), bytes) == there, 'include')
  call mpi_barrier(mpi_comm_world, ierr)
  if (rank == 0) print '(a)', 'PASS fortran'
  call mpi_finalize(ierr)

contains

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    integer :: error
    if (condition) return
    print '(a,i0,2a)', 'FAIL rank ', rank, ': ', what
    call mpi_abort(mpi_comm_world, 3, error)
  end subroutine
end program
