! SPDX-License-Identifier: Apache-2.0
! Calls a function that Fermata does not have.
program refused
  use mpi
  implicit none
  integer :: ierr, children, codes(1)
  call MPI_Init(ierr)
  call MPI_Comm_spawn('nothing', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, children, &
                      codes, ierr)
  print '(a)', 'PASS 0'
  call MPI_Finalize(ierr)
end program
