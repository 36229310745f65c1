// SPDX-License-Identifier: Apache-2.0
// Functions of the application that MPI calls, and attributes. The front end knows a Fortran
// function by a bit of the address that it gets here (frontend/calls.h).
#include "frontend/bindings/fortran/glue.h"

namespace fermata::fortran {

namespace {

using Function = void();

constexpr u64 kFortranFunction = u64(1) << 62;
constexpr u64 kFortran77Function = u64(1) << 61;

void* marked(Function* function, u64 language = kFortranFunction) {
  return reinterpret_cast<void*>(reinterpret_cast<u64>(function) | language);
}
void* as_word(i64 integer) { return reinterpret_cast<void*>(integer); }

}  // namespace

extern "C" {
int PMPI_Op_create(void* function, int commute, mpi::OpSlot** op);
int PMPI_Comm_create_errhandler(void* function, mpi::ErrhandlerSlot** handler);
int PMPI_Win_create_errhandler(void* function, mpi::ErrhandlerSlot** handler);
int PMPI_File_create_errhandler(void* function, mpi::ErrhandlerSlot** handler);
int PMPI_Grequest_start(void* query, void* free, void* cancel, void* extra,
                        mpi::RequestSlot** request);
int PMPI_Comm_create_keyval(void* copy, void* remove, int* keyval, void* extra);
int PMPI_Type_create_keyval(void* copy, void* remove, int* keyval, void* extra);
int PMPI_Win_create_keyval(void* copy, void* remove, int* keyval, void* extra);
}

FERMATA_FORTRAN(op_create, OP_CREATE, (Function * function, int* commute, int* op, int* ierror)) {
  mpi::OpSlot* made = nullptr;
  const int error = PMPI_Op_create(marked(function), *commute != 0, &made);
  if (error == 0) *op = number_of(made);
  finish(ierror, error);
}

FERMATA_FORTRAN(grequest_start, GREQUEST_START,
                (Function * query, Function* free, Function* cancel, i64* extra, int* request,
                 int* ierror)) {
  mpi::RequestSlot* made = nullptr;
  const int error = PMPI_Grequest_start(marked(query), marked(free), marked(cancel), extra, &made);
  if (error == 0) *request = number_of(made);
  finish(ierror, error);
}

#define FERMATA_ERRHANDLER(lower, upper, c_function)                                \
  FERMATA_FORTRAN(lower, upper, (Function * function, int* handler, int* ierror)) { \
    mpi::ErrhandlerSlot* made = nullptr;                                            \
    const int error = c_function(marked(function), &made);                          \
    if (error == 0) *handler = number_of(made);                                     \
    finish(ierror, error);                                                          \
  }

FERMATA_ERRHANDLER(comm_create_errhandler, COMM_CREATE_ERRHANDLER, PMPI_Comm_create_errhandler)
FERMATA_ERRHANDLER(win_create_errhandler, WIN_CREATE_ERRHANDLER, PMPI_Win_create_errhandler)
FERMATA_ERRHANDLER(file_create_errhandler, FILE_CREATE_ERRHANDLER, PMPI_File_create_errhandler)
FERMATA_ERRHANDLER(errhandler_create, ERRHANDLER_CREATE, PMPI_Comm_create_errhandler)

#define FERMATA_KEYVAL(lower, upper, c_function, Integer, language)                         \
  FERMATA_FORTRAN(lower, upper, (Function * copy, Function * remove, int* keyval,           \
                                 Integer* extra, int* ierror)) {                            \
    finish(ierror, c_function(marked(copy, language), marked(remove, language), keyval,     \
                              as_word(*extra)));                                            \
  }

FERMATA_KEYVAL(comm_create_keyval, COMM_CREATE_KEYVAL, PMPI_Comm_create_keyval, i64,
               kFortranFunction)
FERMATA_KEYVAL(type_create_keyval, TYPE_CREATE_KEYVAL, PMPI_Type_create_keyval, i64,
               kFortranFunction)
FERMATA_KEYVAL(win_create_keyval, WIN_CREATE_KEYVAL, PMPI_Win_create_keyval, i64,
               kFortranFunction)
FERMATA_KEYVAL(keyval_create, KEYVAL_CREATE, PMPI_Comm_create_keyval, int, kFortran77Function)

#define FERMATA_ATTRIBUTE(stem, get, GET, set, SET, kind, Integer)                          \
  FERMATA_FORTRAN(get, GET, (int* object, int* keyval, Integer* value, int* flag, int* ierror)) { \
    i64 word = 0;                                                                                 \
    const int error = fermata_attribute_get(kind, handle<kind>(*object), *keyval, &word, flag,    \
                                            "MPI_" stem "_get_attr");                             \
    if (error == 0 && *flag) *value = Integer(word);                                              \
    finish(ierror, error);                                                                        \
  }                                                                                               \
  FERMATA_FORTRAN(set, SET, (int* object, int* keyval, Integer* value, int* ierror)) {            \
    finish(ierror, fermata_attribute_set(kind, handle<kind>(*object), *keyval, *value,            \
                                         "MPI_" stem "_set_attr"));                               \
  }

FERMATA_ATTRIBUTE("Comm", comm_get_attr, COMM_GET_ATTR, comm_set_attr, COMM_SET_ATTR,
                  mpi::kComm, i64)
FERMATA_ATTRIBUTE("Type", type_get_attr, TYPE_GET_ATTR, type_set_attr, TYPE_SET_ATTR,
                  mpi::kDatatype, i64)
FERMATA_ATTRIBUTE("Win", win_get_attr, WIN_GET_ATTR, win_set_attr, WIN_SET_ATTR, mpi::kWin,
                  i64)
FERMATA_ATTRIBUTE("Comm", attr_get, ATTR_GET, attr_put, ATTR_PUT, mpi::kComm, int)

}  // namespace fermata::fortran
