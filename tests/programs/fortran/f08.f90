! SPDX-License-Identifier: Apache-2.0
! `use mpi_f08` across a checkpoint: typed handles, statuses, callbacks with C pointers, optional
! error codes. Options and last line as in check.h.
module callbacks
  use iso_c_binding
  use mpi_f08
  implicit none
  integer :: handled = 0, handled_class = 0, deleted = 0
  interface
    function usleep(us) bind(C, name='usleep') result(r)
      import :: c_int
      integer(c_int), value :: us
      integer(c_int) :: r
    end function
  end interface
contains
  subroutine largest(in, inout, length, datatype)
    type(c_ptr), value :: in, inout
    integer :: length, bytes
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call MPI_Type_size(datatype, bytes)
    if (datatype /= MPI_INTEGER .or. bytes /= 4) return
    call c_f_pointer(in, a, [length])
    call c_f_pointer(inout, b, [length])
    b = max(a, b) + 1
  end subroutine

  subroutine handle_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm == MPI_COMM_WORLD) return
    call MPI_Error_class(code, handled_class)
    handled = handled + 1
  end subroutine

  subroutine copy_value(comm, keyval, extra, value_in, value_out, flag, e)
    type(MPI_Comm) :: comm
    integer :: keyval, e
    integer(MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    value_out = value_in + extra
    flag = .true.
    e = MPI_SUCCESS
  end subroutine

  subroutine delete_value(comm, keyval, value, extra, e)
    type(MPI_Comm) :: comm
    integer :: keyval, e
    integer(MPI_ADDRESS_KIND) :: value, extra
    deleted = deleted + 1
    e = MPI_SUCCESS
  end subroutine
end module

program f08
  use callbacks
  use iso_fortran_env, only: int64, output_unit
  implicit none
  integer :: rank, ranks, right, left, steps, step_ms, step, keyval, i
  integer(int64) :: hash = 1469598103934665603_int64
  integer(int64), allocatable :: all_hashes(:)
  type(MPI_Comm) :: comm
  type(MPI_Op) :: op
  type(MPI_Datatype) :: row
  type(MPI_Errhandler) :: handler

  call options
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call MPI_Comm_create_keyval(copy_value, delete_value, keyval, 7_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, int(rank, MPI_ADDRESS_KIND))
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_set_name(comm, 'typed')
  call MPI_Comm_create_errhandler(handle_error, handler)
  call MPI_Comm_set_errhandler(comm, handler)
  call MPI_Op_create(largest, .true., op)
  call MPI_Type_vector(3, 1, 4, MPI_INTEGER, row)
  call MPI_Type_commit(row)
  call make_ring
  do step = 1, steps
    call one_step
    if (rank == 0) then
      print '(a,i0)', 'step ', step
      flush(output_unit)
    end if
    if (step == steps) call hold
  end do
  call MPI_Comm_free(comm)
  call check(comm == MPI_COMM_NULL .and. deleted == 1, 'a freed communicator')
  allocate(all_hashes(ranks))
  call MPI_Gather(hash, 1, MPI_INTEGER8, all_hashes, 1, MPI_INTEGER8, 0, MPI_COMM_WORLD)
  if (rank == 0) then
    do i = 1, ranks
      hash = ieor(ishftc(hash, 9), all_hashes(i))
    end do
    print '(a,z16.16)', 'PASS ', hash
    flush(output_unit)
  end if
  call MPI_Finalize()

contains

  ! The last step waits while there is a file $CHECK_HOLD, as in check.h.
  subroutine hold
    character(1024) :: file
    logical :: there
    integer(c_int) :: unused
    call get_environment_variable('CHECK_HOLD', file)
    do
      inquire (file=file, exist=there)
      if (.not. there) exit
      unused = usleep(1000)
    end do
  end subroutine

  subroutine options
    character(64) :: name, value
    steps = 5
    step_ms = 0
    do i = 1, command_argument_count() - 1
      call get_command_argument(i, name)
      call get_command_argument(i + 1, value)
      if (name == '--steps') read (value, *) steps
      if (name == '--step-ms') read (value, *) step_ms
    end do
  end subroutine

  subroutine mix(value)
    integer, intent(in) :: value
    hash = ieor(ishftc(hash, 7), int(value, int64)) + 40503_int64
  end subroutine

  ! Weights that are none are told by addresses of the C library.
  subroutine make_ring
    type(MPI_Comm) :: ring
    integer :: into, out, from(1), to(1)
    logical :: weighted
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring)
    call MPI_Dist_graph_neighbors_count(ring, into, out, weighted)
    call check(into == 1 .and. out == 1 .and. .not. weighted, 'a graph without weights')
    call MPI_Dist_graph_neighbors(ring, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED)
    call check(from(1) == left .and. to(1) == right, 'neighbours')
    call MPI_Comm_free(ring)
  end subroutine

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    print '(a,i0,2a)', 'FAIL rank ', rank, ': ', what
    flush(output_unit)
    call MPI_Abort(MPI_COMM_WORLD, 3)
    stop 3
  end subroutine

  subroutine one_step
    integer, asynchronous :: sent(4), got(4), own, total
    integer :: grid(4, 3), other(4, 3), values(2), count, length, index, error, j, unused
    integer(MPI_ADDRESS_KIND) :: value
    type(MPI_Request) :: requests(3)
    type(MPI_Status) :: status, statuses(3)
    logical :: flag
    character(MPI_MAX_OBJECT_NAME) :: name
    sent = step * [1, 2, 3, 4] + rank
    own = rank + step
    requests(3) = MPI_REQUEST_NULL
    call MPI_Irecv(got, 4, MPI_INTEGER, MPI_ANY_SOURCE, step, comm, requests(1))
    call MPI_Isend(sent, 4, MPI_INTEGER, right, step, comm, requests(2))
    call MPI_Iallreduce(own, total, 1, MPI_INTEGER, MPI_SUM, comm, requests(3))
    unused = usleep(int(1000 * step_ms, c_int))
    call MPI_Wait(requests(1), status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(status%MPI_SOURCE == left .and. status%MPI_TAG == step .and. count == 4, 'status')
    call check(all(got == sent - rank + left), 'what was received')
    call MPI_Waitall(3, requests, statuses)
    call check(requests(2) == MPI_REQUEST_NULL, 'a request that is done')
    call check(total == ranks * step + ranks * (ranks - 1) / 2, 'a reduction that was pending')
    grid = reshape([(100 * rank + j + step, j = 1, 12)], [4, 3])
    other = 0
    call MPI_Sendrecv(grid(2, 1), 1, row, right, 2, other(3, 1), 1, row, left, 2, comm, &
                      MPI_STATUS_IGNORE)
    call check(all(other(3, :) == grid(2, :) - 100 * (rank - left)), 'a strided type')
    call MPI_Sendrecv(grid(1:4:2, 2), 2, MPI_INTEGER, right, 3, values, 2, MPI_INTEGER, left, 3, &
                      comm, MPI_STATUS_IGNORE)
    call check(all(values == grid(1:4:2, 2) - 100 * (rank - left)), 'an array section')
    values = [rank, 10 * rank]
    call MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_INTEGER, op, comm)
    call check(values(1) >= ranks .and. values(2) >= 10 * (ranks - 1) + 1, 'a user operation')
    call MPI_Comm_get_attr(comm, keyval, value, flag)
    call check(flag .and. value == rank + 7, 'an attribute')
    call MPI_Comm_get_name(comm, name, length)
    call check(name == 'typed' .and. length == 5, 'a name')
    count = handled
    call MPI_Send(own, 1, MPI_INTEGER, ranks + 5, 0, comm, error)
    call check(error /= MPI_SUCCESS .and. handled == count + 1, 'an error handler')
    call check(handled_class == MPI_ERR_RANK, 'an error class')
    call MPI_Isend(sent, 1, MPI_INTEGER, right, 4, comm, requests(1))
    call MPI_Irecv(got, 1, MPI_INTEGER, left, 4, comm, requests(2))
    call MPI_Waitany(2, requests, index, status)
    ! MPICH 4.0's own module counts from 0 here.
    call check(index >= 0 .and. index <= 2, 'an index')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call mix(sum(other) + got(1) + total + int(value) + handled)
  end subroutine
end program
