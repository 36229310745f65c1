! SPDX-License-Identifier: Apache-2.0
! fermata.h for Fortran programs: compile this file with your own compiler and `use fermata`. What
! the functions do is said in fermata.h; nothing is linked against, and natively all return
! fermata_absent. Arguments that are memory are c_loc(...) and sizes in bytes.
module fermata
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: fermata_is_here, fermata_version, fermata_critical_begin, fermata_critical_end
  public :: fermata_checkpoint, fermata_request, fermata_callback, fermata_no_callback
  public :: fermata_exclude, fermata_include, fermata_self_save, fermata_self_state

  integer, parameter, public :: fermata_committed = 0, fermata_restarted = 1
  integer, parameter, public :: fermata_absent = -1, fermata_failed = -2, fermata_misuse = -3
  integer, parameter, public :: fermata_before = 0, fermata_continue = 1, fermata_restart = 2
  integer, parameter, public :: fermata_on_main_thread = 0, fermata_on_own_thread = 1

  ! struct fermata_table
  type, bind(c) :: table
    integer(c_int) :: abi, bytes
    character(kind=c_char) :: version(16)
    type(c_funptr) :: critical_begin, critical_end, checkpoint, request
    type(c_funptr) :: callback, no_callback, exclude, include, self_save, self_state
  end type

  abstract interface
    ! A callback: subroutine f(when, argument) bind(c)
    subroutine fermata_function(when, argument) bind(c)
      import :: c_int, c_ptr
      integer(c_int), value :: when
      type(c_ptr), value :: argument
    end subroutine
    ! Saves the program: integer(c_int) function f(directory, argument) bind(c). The directory's
    ! name ends with c_null_char.
    integer(c_int) function fermata_saver(directory, argument) bind(c)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: directory(*)
      type(c_ptr), value :: argument
    end function
    integer(c_int) function no_arguments() bind(c)
      import :: c_int
    end function
    integer(c_int) function with_text(text) bind(c)
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: text(*)
    end function
    integer(c_int) function with_buffer(buffer, bytes) bind(c)
      import :: c_int, c_char, c_size_t
      character(kind=c_char), intent(out) :: buffer(*)
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function with_function(place, function, argument) bind(c)
      import :: c_int, c_ptr, c_funptr
      integer(c_int), value :: place
      type(c_funptr), value :: function
      type(c_ptr), value :: argument
    end function
    integer(c_int) function with_saver(function, argument) bind(c)
      import :: c_int, c_ptr, c_funptr
      type(c_funptr), value :: function
      type(c_ptr), value :: argument
    end function
    type(c_ptr) function gives_text() bind(c)
      import :: c_ptr
    end function
    integer(c_int) function with_memory(address, bytes) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
    end function
  end interface
  public :: fermata_function, fermata_saver

  interface
    type(c_ptr) function getauxval(kind) bind(c)
      import :: c_ptr, c_long
      integer(c_long), value :: kind
    end function
  end interface

contains

  ! Null where Fermata is not, or is too old.
  function find() result(found)
    type(table), pointer :: found
    type(c_ptr) :: address
    address = getauxval(int(z'4645524d', c_long))
    nullify(found)
    if (.not. c_associated(address)) return
    call c_f_pointer(address, found)
    if (found%abi /= 1 .or. found%bytes < c_sizeof(found)) nullify(found)
  end function

  logical function fermata_is_here()
    fermata_is_here = associated(find())
  end function

  ! '' where Fermata is not.
  function fermata_version() result(version)
    character(len=16) :: version
    type(table), pointer :: found
    integer :: i
    version = ''
    found => find()
    if (.not. associated(found)) return
    do i = 1, 16
      if (found%version(i) == c_null_char) exit
      version(i:i) = found%version(i)
    end do
  end function

  integer function fermata_critical_begin(name) result(code)
    character(len=*), intent(in) :: name
    type(table), pointer :: found
    procedure(with_text), pointer :: call_it
    code = fermata_absent
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%critical_begin, call_it)
    code = call_it(trim(name) // c_null_char)
  end function

  integer function fermata_critical_end() result(code)
    type(table), pointer :: found
    procedure(no_arguments), pointer :: call_it
    code = fermata_absent
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%critical_end, call_it)
    code = call_it()
  end function

  integer function fermata_checkpoint(message) result(code)
    character(len=*), intent(out), optional :: message
    character(kind=c_char) :: text(256)
    type(table), pointer :: found
    procedure(with_buffer), pointer :: call_it
    integer :: i
    code = fermata_absent
    if (present(message)) message = ''
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%checkpoint, call_it)
    code = call_it(text, size(text, kind=c_size_t))
    if (.not. present(message)) return
    do i = 1, min(len(message), size(text))
      if (text(i) == c_null_char) exit
      message(i:i) = text(i)
    end do
  end function

  integer function fermata_request() result(code)
    type(table), pointer :: found
    procedure(no_arguments), pointer :: call_it
    code = fermata_absent
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%request, call_it)
    code = call_it()
  end function

  integer function fermata_callback(place, function, argument) result(code)
    integer, intent(in) :: place
    procedure(fermata_function) :: function
    type(c_ptr), intent(in) :: argument
    type(table), pointer :: found
    code = fermata_absent
    found => find()
    if (associated(found)) code = change(found%callback, place, c_funloc(function), argument)
  end function

  integer function fermata_no_callback(place, function, argument) result(code)
    integer, intent(in) :: place
    procedure(fermata_function) :: function
    type(c_ptr), intent(in) :: argument
    type(table), pointer :: found
    code = fermata_absent
    found => find()
    if (associated(found)) code = change(found%no_callback, place, c_funloc(function), argument)
  end function

  integer function change(entry_point, place, function, argument) result(code)
    type(c_funptr), intent(in) :: entry_point, function
    integer, intent(in) :: place
    type(c_ptr), intent(in) :: argument
    procedure(with_function), pointer :: call_it
    call c_f_procpointer(entry_point, call_it)
    code = call_it(int(place, c_int), function, argument)
  end function

  integer function fermata_exclude(address, bytes) result(code)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    type(table), pointer :: found
    code = fermata_absent
    found => find()
    if (associated(found)) code = mark(found%exclude, address, bytes)
  end function

  integer function fermata_include(address, bytes) result(code)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    type(table), pointer :: found
    code = fermata_absent
    found => find()
    if (associated(found)) code = mark(found%include, address, bytes)
  end function

  integer function mark(entry_point, address, bytes) result(code)
    type(c_funptr), intent(in) :: entry_point
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    procedure(with_memory), pointer :: call_it
    call c_f_procpointer(entry_point, call_it)
    code = call_it(address, bytes)
  end function

  integer function fermata_self_save(function, argument) result(code)
    procedure(fermata_saver) :: function
    type(c_ptr), intent(in) :: argument
    type(table), pointer :: found
    procedure(with_saver), pointer :: call_it
    code = fermata_absent
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%self_save, call_it)
    code = call_it(c_funloc(function), argument)
  end function

  ! '' where the program begins.
  function fermata_self_state() result(directory)
    character(len=:), allocatable :: directory
    type(table), pointer :: found
    procedure(gives_text), pointer :: call_it
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: address
    integer :: i
    directory = ''
    found => find()
    if (.not. associated(found)) return
    call c_f_procpointer(found%self_state, call_it)
    address = call_it()
    if (.not. c_associated(address)) return
    call c_f_pointer(address, text, [4096])
    i = 1
    do while (text(i) /= c_null_char)
      directory = directory // text(i)
      i = i + 1
    end do
  end function

end module
