// SPDX-License-Identifier: Apache-2.0
// The members of the bindings' classes that are not inline in the headers, and one use of every
// class, so that its vtable and type information are in this library as well.
#include "frontend/bindings/cxx/glue.h"

namespace MPI {

Comm::Comm() {}
Comm::Comm(const Comm_Null& data) : Comm_Null(data) {}

void Datatype::Free() { (void)MPI_Type_free(&mpi_datatype); }
void File::Close() { (void)MPI_File_close(&mpi_file); }
void Win::Free() { (void)MPI_Win_free(&mpi_win); }

// Every MPI::Init ends here. The handler that would throw in an Open MPI built with exceptions can
// only be made now; it is one for communicators.
void InitializeIntercepts() {
  MPI_Errhandler made = MPI_ERRHANDLER_NULL;
  if (MPI_Comm_create_errhandler(ompi_mpi_cxx_comm_throw_excptn_fctn, &made) == MPI_SUCCESS)
    const_cast<Errhandler&>(ERRORS_THROW_EXCEPTIONS) = made;
}

Errhandler Comm::Create_errhandler(Errhandler_function* function) {
  return ompi_cxx_errhandler_create_comm(reinterpret_cast<fermata::cxx::AnyFunction*>(function));
}
Errhandler Win::Create_errhandler(Errhandler_function* function) {
  return ompi_cxx_errhandler_create_win(reinterpret_cast<fermata::cxx::AnyFunction*>(function));
}
Errhandler File::Create_errhandler(Errhandler_function* function) {
  return ompi_cxx_errhandler_create_file(reinterpret_cast<fermata::cxx::AnyFunction*>(function));
}

}  // namespace MPI

namespace fermata::cxx {

[[gnu::used]] static void use_every_class() {
  static MPI::Status status;
  static MPI::Prequest persistent;
  static MPI::Grequest generalized;
  static MPI::Intercomm inter;
  static MPI::Cartcomm cart;
  static MPI::Graphcomm graph;
}

}  // namespace fermata::cxx
