! SPDX-License-Identifier: Apache-2.0
! The same as heat.c in Fortran: a rod that cools, saved by SCR's calls in their documented order.
program heat
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  include 'mpif.h'
  include 'scrf.h'
  integer, parameter :: cells = 50000, picture = 20
  double precision :: rod(0:cells + 1)
  integer :: rank, ranks, step, steps, step_ms, is_needed, is_over, error

  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  steps = argument(1, 100)
  step_ms = argument(2, 0)

  call SCR_INIT(error)
  if (error /= SCR_SUCCESS) call MPI_ABORT(MPI_COMM_WORLD, 1, error)
  call restart()
  is_over = 0
  do while (step < steps .and. is_over == 0)
    call compute()
    if (rank == 0) call say('step', step)
    call SCR_NEED_CHECKPOINT(is_needed, error)
    if (is_needed /= 0) call output('ckpt', SCR_FLAG_CHECKPOINT)
    if (mod(step, picture) == 0) call output('picture', SCR_FLAG_OUTPUT)
    call SCR_SHOULD_EXIT(is_over, error)
  end do
  if (rank == 0 .and. is_over /= 0) call say('stopped at step', step)
  call finish()
  call SCR_FINALIZE(error)
  if (error == SCR_SUCCESS .and. rank == 0) print '(a)', 'finished'
  flush (6)
  call MPI_FINALIZE(error)

contains

  integer function argument(number, otherwise)
    integer, intent(in) :: number, otherwise
    character(len=32) :: text
    integer :: failed
    call get_command_argument(number, text)
    read (text, *, iostat=failed) argument
    if (failed /= 0) argument = otherwise
  end function

  subroutine say(what, number)
    character(len=*), intent(in) :: what
    integer, intent(in) :: number
    print '(a,1x,i0)', what, number
    flush (6)
  end subroutine

  subroutine name_file(dataset, name)
    character(len=*), intent(in) :: dataset
    character(len=*), intent(out) :: name
    write (name, '(a,"/rank_",i0,".heat")') trim(dataset), rank
  end subroutine

  ! Tries one checkpoint after the other, the newest first.
  subroutine restart()
    character(len=SCR_MAX_FILENAME) :: dataset
    integer :: is_there, valid, i
    do
      call SCR_HAVE_RESTART(is_there, dataset, error)
      if (error /= SCR_SUCCESS .or. is_there == 0) exit
      call SCR_START_RESTART(dataset, error)
      valid = read_rod(dataset)
      call SCR_COMPLETE_RESTART(valid, error)
      if (error == SCR_SUCCESS) then
        if (rank == 0) print '(a,1x,a)', 'restarted from', trim(dataset)
        return
      end if
    end do
    if (rank == 0) print '(a)', 'begun anew'
    step = 0
    do i = 0, cells + 1
      rod(i) = rank + mod(i, 97)/97.0d0
    end do
  end subroutine

  integer function read_rod(dataset)
    character(len=*), intent(in) :: dataset
    character(len=SCR_MAX_FILENAME) :: name, file
    integer :: unit, failed
    read_rod = 0
    call name_file(dataset, name)
    call SCR_ROUTE_FILE(name, file, error)
    if (error /= SCR_SUCCESS) return
    open (newunit=unit, file=file, form='unformatted', status='old', action='read', &
          iostat=failed)
    if (failed /= 0) return
    read (unit, iostat=failed) step, rod
    close (unit)
    if (failed == 0) read_rod = 1
  end function

  integer function write_rod(dataset)
    character(len=*), intent(in) :: dataset
    character(len=SCR_MAX_FILENAME) :: name, file
    integer :: unit, failed
    write_rod = 0
    call name_file(dataset, name)
    call SCR_ROUTE_FILE(name, file, error)
    if (error /= SCR_SUCCESS) return
    open (newunit=unit, file=file, form='unformatted', status='replace', action='write', &
          iostat=failed)
    if (failed /= 0) return
    write (unit, iostat=failed) step, rod
    if (failed == 0) close (unit, iostat=failed)
    if (failed == 0) write_rod = 1
  end function

  subroutine output(what, flags)
    character(len=*), intent(in) :: what
    integer, intent(in) :: flags
    character(len=SCR_MAX_FILENAME) :: dataset
    integer :: valid
    write (dataset, '(a,".",i0)') what, step
    call SCR_START_OUTPUT(dataset, flags, error)
    if (error /= SCR_SUCCESS) return
    valid = write_rod(dataset)
    call SCR_COMPLETE_OUTPUT(valid, error)
    if (rank /= 0) return
    if (error == SCR_SUCCESS) then
      print '(a,1x,a)', 'saved', trim(dataset)
    else
      print '(a,1x,a)', 'failed to save', trim(dataset)
    end if
    flush (6)
  end subroutine

  subroutine compute()
    interface
      integer(c_int) function usleep(microseconds) bind(c)
        import :: c_int
        integer(c_int), value :: microseconds
      end function
    end interface
    double precision :: before, here
    integer :: left, right, i, slept
    left = rank - 1
    if (rank == 0) left = MPI_PROC_NULL
    right = rank + 1
    if (rank == ranks - 1) right = MPI_PROC_NULL
    call MPI_SENDRECV(rod(1), 1, MPI_DOUBLE_PRECISION, left, 0, rod(cells + 1), 1, &
                      MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_SENDRECV(rod(cells), 1, MPI_DOUBLE_PRECISION, right, 0, rod(0), 1, &
                      MPI_DOUBLE_PRECISION, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    before = rod(0)
    do i = 1, cells
      here = rod(i)
      rod(i) = rod(i) + 0.25d0*(before - 2*here + rod(i + 1))
      before = here
    end do
    step = step + 1
    slept = usleep(1000*step_ms)
  end subroutine

  ! In the order of the ranks, so that it is the same with and without a restart.
  subroutine finish()
    double precision :: mine, parts(ranks)
    integer :: i
    mine = 0
    do i = 1, cells
      mine = mine + rod(i)*mod(i, 7)
    end do
    call MPI_ALLGATHER(mine, 1, MPI_DOUBLE_PRECISION, parts, 1, MPI_DOUBLE_PRECISION, &
                       MPI_COMM_WORLD, error)
    if (rank == 0 .and. step == steps) print '(a,1x,es24.16e3)', 'PASS', sum(parts)
  end subroutine
end program
