! SPDX-License-Identifier: Apache-2.0
! The Fortran bindings by INTEGER handles, across a checkpoint. Built twice: with `use mpi`, and as
! FERMATA_MPIF_H with mpif.h. Objects and callbacks are made once, used in every step; requests are
! pending while the program pauses. Options and last line as in check.h.
module checks
  use iso_c_binding
  use iso_fortran_env, only: int64, output_unit
#ifndef FERMATA_MPIF_H
  use mpi
#endif
  implicit none
#ifdef FERMATA_MPIF_H
  include 'mpif.h'
#endif
  integer :: rank, ranks, ierr
  integer :: handled = 0, handled_class = 0, deleted = 0, copied = 0
  integer(int64) :: hash = 1469598103934665603_int64
  interface
    function usleep(us) bind(C, name='usleep') result(r)
      import :: c_int
      integer(c_int), value :: us
      integer(c_int) :: r
    end function
  end interface
contains
  subroutine mix(value)
    integer, intent(in) :: value
    hash = ieor(ishftc(hash, 7), int(value, int64)) + 40503_int64
  end subroutine

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    print '(a,i0,2a)', 'FAIL rank ', rank, ': ', what
    flush(output_unit)
    call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    stop 3
  end subroutine
end module

! What MPI calls: external procedures, as old programs have them.
subroutine add_pairs(in, inout, length, datatype)
  use checks
  integer :: length, datatype, bytes, i
  real(8) :: in(2, length), inout(2, length)
  call MPI_Type_size(datatype, bytes, ierr)
  call check(ierr == MPI_SUCCESS .and. bytes == 16, 'the datatype in a user operation')
  do i = 1, length
    inout(1, i) = inout(1, i) + in(1, i)
    inout(2, i) = max(inout(2, i), in(2, i))
  end do
end subroutine

subroutine handle_error(comm, code)
  use checks
  integer :: comm, code, e
  call MPI_Error_class(code, handled_class, e)
  handled = handled + 1
end subroutine

subroutine copy_wide(comm, keyval, extra, value_in, value_out, flag, e)
  use checks
  integer :: comm, keyval, e
  integer(MPI_ADDRESS_KIND) :: extra, value_in, value_out
  logical :: flag
  value_out = value_in + extra
  copied = copied + 1
  flag = .true.
  e = MPI_SUCCESS
end subroutine

subroutine delete_wide(comm, keyval, value, extra, e)
  use checks
  integer :: comm, keyval, e
  integer(MPI_ADDRESS_KIND) :: value, extra
  if (extra == 1000_MPI_ADDRESS_KIND) deleted = deleted + 1
  e = MPI_SUCCESS
end subroutine

subroutine copy_narrow(comm, keyval, extra, value_in, value_out, flag, e)
  integer :: comm, keyval, extra, value_in, value_out, e
  logical :: flag
  value_out = value_in * extra
  flag = .true.
  e = 0
end subroutine

subroutine delete_narrow(comm, keyval, value, extra, e)
  integer :: comm, keyval, value, extra, e
  e = 0
end subroutine

subroutine query_generalized(extra, status, e)
  use checks
  integer :: status(MPI_STATUS_SIZE), e
  integer(MPI_ADDRESS_KIND) :: extra
  status(MPI_SOURCE) = int(extra)
  status(MPI_TAG) = 7
  call MPI_Status_set_elements(status, MPI_INTEGER, 3, e)
  call MPI_Status_set_cancelled(status, .false., e)
end subroutine

subroutine free_generalized(extra, e)
  use checks
  integer :: e
  integer(MPI_ADDRESS_KIND) :: extra
  extra = extra + 1
  e = MPI_SUCCESS
end subroutine

subroutine cancel_generalized(extra, complete, e)
  use checks
  integer :: e
  integer(MPI_ADDRESS_KIND) :: extra
  logical :: complete
  if (.not. complete) extra = extra + 100
  e = MPI_SUCCESS
end subroutine

program calls
  use checks
  implicit none
  external :: query_generalized, free_generalized, cancel_generalized
  external :: add_pairs, handle_error, copy_wide, delete_wide, copy_narrow, delete_narrow
  integer :: steps, step_ms, step, right, left
  integer :: comm, cart, op, pair, column, absolute, wide, narrow, handler, info
  integer :: persistent(2)
  integer, volatile :: persistent_in(4), persistent_out(4)
  real(8), volatile :: kept_a(3)
  integer, volatile :: kept_b(2)
  integer(int64), allocatable :: all_hashes(:)

  call options(steps, step_ms)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call make_objects
  do step = 1, steps
    call point_to_point(step)
    call collectives(step)
    call use_objects(step)
    call pending(step)
    if (rank == 0) then
      print '(a,i0)', 'step ', step
      flush(output_unit)
    end if
    if (step == steps) call hold
  end do
  call free_objects
  allocate(all_hashes(ranks))
  call MPI_Gather(hash, 1, MPI_INTEGER8, all_hashes, 1, MPI_INTEGER8, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    do step = 1, ranks
      hash = ieor(ishftc(hash, 9), all_hashes(step))
    end do
    print '(a,z16.16)', 'PASS ', hash
    flush(output_unit)
  end if
  call MPI_Finalize(ierr)

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

  subroutine options(steps, step_ms)
    integer, intent(out) :: steps, step_ms
    character(64) :: name, value
    integer :: i
    steps = 5
    step_ms = 0
    do i = 1, command_argument_count() - 1
      call get_command_argument(i, name)
      call get_command_argument(i + 1, value)
      if (name == '--steps') read (value, *) steps
      if (name == '--step-ms') read (value, *) step_ms
    end do
  end subroutine

  subroutine make_objects
    integer :: i, old
    integer(MPI_ADDRESS_KIND) :: where(2), value
    logical :: periods(1)
    call MPI_Comm_create_keyval(copy_wide, delete_wide, wide, 1000_MPI_ADDRESS_KIND, ierr)
    value = 2_MPI_ADDRESS_KIND ** 40 + rank
    call MPI_Comm_set_attr(MPI_COMM_WORLD, wide, value, ierr)
    call MPI_Keyval_create(copy_narrow, delete_narrow, narrow, 3, ierr)
    call MPI_Attr_put(MPI_COMM_WORLD, narrow, 14 + rank, ierr)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
    call MPI_Comm_set_name(comm, 'a name with blanks   ', ierr)
    call MPI_Comm_create_errhandler(handle_error, handler, ierr)
    call MPI_Comm_set_errhandler(comm, handler, ierr)
    call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair, ierr)
    call MPI_Type_commit(pair, ierr)
    call MPI_Op_create(add_pairs, .true., op, ierr)
    call MPI_Type_vector(4, 1, 3, MPI_INTEGER, old, ierr)
    call MPI_Type_create_resized(old, 0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND, column, ierr)
    call MPI_Type_free(old, ierr)
    call MPI_Type_commit(column, ierr)
    call MPI_Get_address(kept_a, where(1), ierr)
    call MPI_Get_address(kept_b, where(2), ierr)
    call MPI_Type_create_struct(2, [3, 2], where, [MPI_REAL8, MPI_INTEGER], absolute, ierr)
    call MPI_Type_commit(absolute, ierr)
    periods = .true.
    call MPI_Cart_create(comm, 1, [ranks], periods, .false., cart, ierr)
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, ' key ', ' a value ', ierr)
    call MPI_Send_init(persistent_out, 4, MPI_INTEGER, right, 77, comm, persistent(1), ierr)
    call MPI_Recv_init(persistent_in, 4, MPI_INTEGER, left, 77, comm, persistent(2), ierr)
    persistent_out = [(10 * rank + i, i = 1, 4)]
    call no_file
    call unread_types
  end subroutine

  ! The handler that files get which are yet to be opened.
  subroutine no_file
    integer :: file, before
    file = MPI_FILE_NULL
    call MPI_File_get_errhandler(file, before, ierr)
    call check(ierr == MPI_SUCCESS .and. before == MPI_ERRORS_RETURN, 'the handler of no file')
    call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN, ierr)
    call check(ierr == MPI_SUCCESS, 'a handler for files to come')
  end subroutine

  ! A datatype that only the root reads may be any number elsewhere.
  subroutine unread_types
    integer :: there, all_ranks(64)
    there = 1515870810
    if (rank == 0) there = MPI_INTEGER
    call MPI_Gather(rank, 1, MPI_INTEGER, all_ranks, 1, there, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) call check(all_ranks(ranks) == ranks - 1, 'a gather')
  end subroutine

  subroutine point_to_point(step)
    integer, intent(in) :: step
    integer :: status(MPI_STATUS_SIZE), count, table(3, 4), got(3, 4), position, i
    character(12) :: text
    character(64) :: packed
    logical :: flag
    if (mod(rank, 2) == 0) then
      call MPI_Send([rank, step, 5], 3, MPI_INTEGER, right, step, comm, ierr)
      call MPI_Recv(got, 12, MPI_INTEGER, MPI_ANY_SOURCE, step, comm, status, ierr)
    else
      call MPI_Recv(got, 12, MPI_INTEGER, MPI_ANY_SOURCE, step, comm, status, ierr)
      call MPI_Send([rank, step, 5], 3, MPI_INTEGER, right, step, comm, ierr)
    end if
    call MPI_Get_count(status, MPI_INTEGER, count, ierr)
    call check(count == 3 .and. status(MPI_SOURCE) == left .and. status(MPI_TAG) == step, 'status')
    call check(got(1, 1) == left .and. got(2, 1) == step, 'received values')
    text = 'to the right'
    call MPI_Sendrecv_replace(text, 12, MPI_CHARACTER, right, 1, left, 1, comm, &
                              MPI_STATUS_IGNORE, ierr)
    call check(text == 'to the right', 'characters')
    table = reshape([(100 * step + i + rank, i = 1, 12)], [3, 4])
    got = 0
    call MPI_Sendrecv(table(2, 1), 2, column, right, 2, got(1, 1), 2, column, left, 2, comm, &
                      MPI_STATUS_IGNORE, ierr)
    call check(all(got(1, :) == table(2, :) - rank + left), 'a strided type')
    call check(all(got(2, :) == table(3, :) - rank + left), 'a resized type')
    kept_a = [1d0 * step, 2d0, 3d0 + rank]
    kept_b = [step, rank]
    call MPI_Sendrecv_replace(MPI_BOTTOM, 1, absolute, right, 3, left, 3, comm, status, ierr)
    call check(kept_a(3) == 3d0 + left .and. kept_b(2) == left, 'MPI_BOTTOM')
    position = 0
    call MPI_Pack(table, 5, MPI_INTEGER, packed, 64, position, comm, ierr)
    position = 0
    call MPI_Unpack(packed, 64, position, got, 5, MPI_INTEGER, comm, ierr)
    call check(all(got(:, 1) == table(:, 1)), 'pack and unpack')
    call MPI_Iprobe(left, 4, comm, flag, status, ierr)
    call check(.not. flag, 'a flag that is false')
    call MPI_Send(step, 1, MPI_INTEGER, MPI_PROC_NULL, 4, comm, ierr)
    call MPI_Recv(i, 1, MPI_INTEGER, MPI_PROC_NULL, 4, comm, status, ierr)
    call check(status(MPI_SOURCE) == MPI_PROC_NULL, 'MPI_PROC_NULL')
    call mix(sum(got) + kept_b(1))
  end subroutine

  subroutine collectives(step)
    integer, intent(in) :: step
    integer :: values(4), i, counts(ranks), offsets(ranks)
    integer, allocatable :: blocks(:), received(:)
    real(8) :: pairs(2, 3), results(2, 3)
    logical :: yes
    character(5) :: word
    values = [rank, step, rank * step, 1]
    call MPI_Allreduce(MPI_IN_PLACE, values, 4, MPI_INTEGER, MPI_SUM, comm, ierr)
    call check(values(1) == ranks * (ranks - 1) / 2 .and. values(4) == ranks, 'MPI_IN_PLACE')
    pairs = reshape([(1d0 * rank + i, i = 1, 6)], [2, 3])
    call MPI_Allreduce(pairs, results, 3, pair, op, comm, ierr)
    call check(results(2, 1) == 1d0 + ranks, 'a user operation')
    call mix(int(sum(results)))
    yes = step > 2 .and. rank == 0
    call MPI_Allreduce(MPI_IN_PLACE, yes, 1, MPI_LOGICAL, MPI_LOR, comm, ierr)
    call check(yes .eqv. (step > 2), 'MPI_LOR')
    word = ' '
    if (rank == ranks - 1) word = 'hello'
    call MPI_Bcast(word, 5, MPI_CHARACTER, ranks - 1, comm, ierr)
    call check(word == 'hello', 'a broadcast of characters')
    counts = [(i, i = 1, ranks)]
    offsets = [(i * (i - 1) / 2, i = 1, ranks)]
    allocate(blocks(rank + 1), received(ranks * (ranks + 1) / 2))
    blocks = step + rank
    call MPI_Gatherv(blocks, rank + 1, MPI_INTEGER, received, counts, offsets, MPI_INTEGER, 0, &
                     comm, ierr)
    if (rank == 0) call mix(sum(received))
    call MPI_Barrier(comm, ierr)
  end subroutine

  subroutine use_objects(step)
    integer, intent(in) :: step
    integer :: length, small, part, old, dims(1), coords(1), source, target
    integer(MPI_ADDRESS_KIND) :: value, lower, extent
    logical :: flag, periods(1), member
    character(40) :: text
    call MPI_Comm_get_attr(comm, wide, value, flag, ierr)
    call check(flag .and. value == 2_MPI_ADDRESS_KIND ** 40 + rank + 1000, 'an attribute')
    call MPI_Attr_get(comm, narrow, small, flag, ierr)
    call check(flag .and. small == 3 * (14 + rank), 'an attribute of MPI-1')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB')
    text = 'something that must go away'
    call MPI_Comm_get_name(comm, text, length, ierr)
    call check(text == 'a name with blanks' .and. length == 18, 'a name')
    call MPI_Info_get(info, 'key', 40, text, flag, ierr)
    call check(flag .and. text == 'a value', 'an info')
    call MPI_Type_get_extent(column, lower, extent, ierr)
    call check(lower == 0 .and. extent == 4, 'an extent')
    old = handled
    call MPI_Send(step, 1, MPI_INTEGER, ranks + 5, 0, comm, ierr)
    call check(ierr /= MPI_SUCCESS .and. handled == old + 1, 'an error handler')
    call check(handled_class == MPI_ERR_RANK, 'an error class')
    call MPI_Cart_get(cart, 1, dims, periods, coords, ierr)
    call check(dims(1) == ranks .and. periods(1) .and. coords(1) == rank, 'a grid')
    call MPI_Cart_shift(cart, 0, 1, source, target, ierr)
    call check(source == left .and. target == right, 'a shift')
    member = mod(rank, 2) == 0
    call MPI_Comm_split(comm, merge(1, MPI_UNDEFINED, member), rank, part, ierr)
    call check(member .eqv. (part /= MPI_COMM_NULL), 'a split')
    if (member) call MPI_Comm_free(part, ierr)
    old = deleted
    call MPI_Comm_dup(comm, part, ierr)
    call MPI_Comm_free(part, ierr)
    call check(deleted == old + 1 .and. copied == step + 1, 'attribute callbacks')
    call mix(handled + coords(1))
  end subroutine

  ! Requests of all kinds while the program pauses.
  subroutine pending(step)
    integer, intent(in) :: step
    integer, asynchronous :: values(5), own(2), total(2)
    integer :: requests(5), indices(5), count, i, first, unused
    integer :: statuses(MPI_STATUS_SIZE, 5)
    integer :: generalized, got
    integer(MPI_ADDRESS_KIND), volatile :: extra
    logical :: flag
    extra = step
    call MPI_Grequest_start(query_generalized, free_generalized, cancel_generalized, extra, &
                            generalized, ierr)
    call MPI_Startall(2, persistent, ierr)
    do i = 1, 3
      call MPI_Irecv(values(i), 1, MPI_INTEGER, left, 10 + i, comm, requests(i), ierr)
    end do
    do i = 1, 3
      call MPI_Send(step * 10 + i, 1, MPI_INTEGER, right, 10 + i, comm, ierr)
    end do
    own = [rank, step]
    call MPI_Iallreduce(own, total, 2, MPI_INTEGER, MPI_SUM, comm, requests(4), ierr)
    requests(5) = MPI_REQUEST_NULL
    unused = usleep(int(1000 * step_ms, c_int))
    call MPI_Cancel(generalized, ierr)
    call MPI_Grequest_complete(generalized, ierr)
    call MPI_Wait(generalized, statuses(:, 1), ierr)
    call MPI_Get_count(statuses(:, 1), MPI_INTEGER, got, ierr)
    call check(statuses(MPI_SOURCE, 1) == step + 100 .and. statuses(MPI_TAG, 1) == 7 .and. &
               got == 3 .and. extra == step + 101, 'a generalized request')
    call MPI_Waitany(3, requests, first, MPI_STATUS_IGNORE, ierr)
    call check(first >= 1 .and. first <= 3, 'an index')
    call check(requests(first) == MPI_REQUEST_NULL, 'a request that is done')
    count = 0
    i = 1
    do while (count /= MPI_UNDEFINED)
      call MPI_Waitsome(5, requests, count, indices, statuses, ierr)
      if (count /= MPI_UNDEFINED) i = i + count
    end do
    call check(i == 4, 'as many indices as requests')
    call check(all(requests == MPI_REQUEST_NULL), 'requests that are done')
    call check(all(values(1:3) == step * 10 + [1, 2, 3]), 'what was received')
    call check(total(2) == ranks * step, 'a reduction that was pending')
    call MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE, ierr)
    call check(all(persistent /= MPI_REQUEST_NULL), 'persistent requests stay')
    call check(all(persistent_in == persistent_out - 10 * rank + 10 * left), 'persistent data')
    persistent_out = persistent_out + 1
    call MPI_Testall(2, persistent, flag, statuses, ierr)
    call check(flag, 'inactive requests are done')
    call mix(sum(values(1:3)) + sum(persistent_in) + total(1))
  end subroutine

  subroutine free_objects
    integer :: i
    do i = 1, 2
      call MPI_Request_free(persistent(i), ierr)
    end do
    call MPI_Info_free(info, ierr)
    call MPI_Comm_free(cart, ierr)
    call MPI_Op_free(op, ierr)
    call check(op == MPI_OP_NULL, 'a freed operation')
    call MPI_Type_free(pair, ierr)
    call MPI_Type_free(column, ierr)
    call MPI_Type_free(absolute, ierr)
    call MPI_Comm_free(comm, ierr)
    call check(comm == MPI_COMM_NULL, 'a freed communicator')
    call MPI_Errhandler_free(handler, ierr)
    call MPI_Comm_free_keyval(wide, ierr)
    call MPI_Keyval_free(narrow, ierr)
    call check(wide == MPI_KEYVAL_INVALID, 'a freed keyval')
    call mix(deleted)
  end subroutine
end program
