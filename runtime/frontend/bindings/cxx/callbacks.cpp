// SPDX-License-Identifier: Apache-2.0
// Between the C callbacks that MPI knows and the C++ functions that the program passed: reduction
// operations, error handlers, generalized requests and data representations.
#include <stdio.h>
#include <stdlib.h>

#include <mutex>

#include "frontend/bindings/cxx/glue.h"

namespace fermata::cxx {

void unsupported(const char* function, const char* why) {
  fprintf(stderr, "fermata: %s of the C++ bindings of MPI cannot be used: %s\n", function, why);
  (void)MPI_Abort(MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION);
  abort();
}

namespace {

// MPI calls an error handler without any context, so each C++ function gets a C function of its own
// from a fixed stock; the same C++ function always gets the same one.
constexpr int kHandlersMax = 32;

template <typename Class, typename Handle>
struct Handlers {
  using Function = typename Class::Errhandler_function;
  using CFunction = void (*)(Handle*, int*, ...);

  static inline std::mutex lock;
  static inline Function* functions[kHandlersMax];

  template <int kIndex>
  static void call(Handle* handle, int* code, ...);

  template <int kIndex>
  static CFunction find(Function* wanted, const char* name) {
    if constexpr (kIndex == kHandlersMax) {
      unsupported(name, "more than 32 different functions are in use as error handlers");
    } else {
      if (!functions[kIndex]) functions[kIndex] = wanted;
      return functions[kIndex] == wanted ? &call<kIndex> : find<kIndex + 1>(wanted, name);
    }
  }

  static CFunction of(AnyFunction* function, const char* name) {
    const std::lock_guard<std::mutex> guard(lock);
    return find<0>(reinterpret_cast<Function*>(function), name);
  }
};

void invoke(MPI_Comm* handle, int* code, MPI::Comm::Errhandler_function* function) {
  MPI::Intracomm object;
  object = *handle;
  function(object, code);
}
void invoke(MPI_Win* handle, int* code, MPI::Win::Errhandler_function* function) {
  MPI::Win object(*handle);
  function(object, code);
}
void invoke(MPI_File* handle, int* code, MPI::File::Errhandler_function* function) {
  MPI::File object(*handle);
  function(object, code);
}

template <typename Class, typename Handle>
template <int kIndex>
void Handlers<Class, Handle>::call(Handle* handle, int* code, ...) {
  invoke(handle, code, functions[kIndex]);
}

void note_error(const int* code) {
  fprintf(stderr, "MPI::ERRORS_THROW_EXCEPTIONS: this Open MPI has no C++ exceptions; the error "
                  "code %d is in MPI::mpi_errno\n", *code);
  MPI::mpi_errno = *code;
}

// The callbacks of a data representation, each in C or in C++.
struct Datarep {
  MPI::Datarep_conversion_function* read;
  MPI::Datarep_conversion_function* write;
  MPI_Datarep_conversion_function* c_read;
  MPI_Datarep_conversion_function* c_write;
  MPI::Datarep_extent_function* extent;
  void* extra;
};

int convert(MPI::Datarep_conversion_function* function, MPI_Datarep_conversion_function* c_function,
            void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
            void* extra) {
  if (c_function) return c_function(user, type, count, file, position, extra);
  MPI::Datatype object(type);
  function(user, object, count, file, position, extra);
  return MPI_SUCCESS;
}

int datarep_read(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                 void* state) {
  const auto* rep = static_cast<Datarep*>(state);
  return convert(rep->read, rep->c_read, user, type, count, file, position, rep->extra);
}

int datarep_write(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                  void* state) {
  const auto* rep = static_cast<Datarep*>(state);
  return convert(rep->write, rep->c_write, user, type, count, file, position, rep->extra);
}

int datarep_extent(MPI_Datatype type, MPI_Aint* extent, void* state) {
  const auto* rep = static_cast<Datarep*>(state);
  const MPI::Datatype object(type);
  rep->extent(object, *extent, rep->extra);
  return MPI_SUCCESS;
}

// A representation cannot be taken back, so its record is never freed.
void register_datarep(const char* name, const Datarep& rep) {
  const bool reads = rep.read || rep.c_read, writes = rep.write || rep.c_write;
  (void)MPI_Register_datarep(name, reads ? datarep_read : MPI_CONVERSION_FN_NULL,
                             writes ? datarep_write : MPI_CONVERSION_FN_NULL, datarep_extent,
                             new Datarep(rep));
}

}  // namespace
}  // namespace fermata::cxx

namespace MPI {

using Extent = Datarep_extent_function;
using Cxx = Datarep_conversion_function;
using C = MPI_Datarep_conversion_function;

void Register_datarep(const char* name, Cxx* read, Cxx* write, Extent* extent, void* extra) {
  fermata::cxx::register_datarep(name, {read, write, nullptr, nullptr, extent, extra});
}
void Register_datarep(const char* name, C* read, Cxx* write, Extent* extent, void* extra) {
  fermata::cxx::register_datarep(name, {nullptr, write, read, nullptr, extent, extra});
}
void Register_datarep(const char* name, Cxx* read, C* write, Extent* extent, void* extra) {
  fermata::cxx::register_datarep(name, {read, nullptr, nullptr, write, extent, extra});
}
void Register_datarep(const char* name, C* read, C* write, Extent* extent, void* extra) {
  fermata::cxx::register_datarep(name, {nullptr, nullptr, read, write, extent, extra});
}

}  // namespace MPI

using namespace fermata::cxx;

extern "C" {

// The front end calls this for an operation made by MPI::Op::Init, with the program's function as
// the last argument.
void ompi_mpi_cxx_op_intercept(void* in, void* inout, int* length, MPI_Datatype* datatype,
                               MPI_User_function* function) {
  const MPI::Datatype type(*datatype);
  reinterpret_cast<MPI::User_function*>(function)(in, inout, *length, type);
}

MPI_Errhandler ompi_cxx_errhandler_create_comm(AnyFunction* function) {
  MPI_Errhandler made = MPI_ERRHANDLER_NULL;
  (void)MPI_Comm_create_errhandler(
      Handlers<MPI::Comm, MPI_Comm>::of(function, "MPI::Comm::Create_errhandler"), &made);
  return made;
}
MPI_Errhandler ompi_cxx_errhandler_create_win(AnyFunction* function) {
  MPI_Errhandler made = MPI_ERRHANDLER_NULL;
  (void)MPI_Win_create_errhandler(
      Handlers<MPI::Win, MPI_Win>::of(function, "MPI::Win::Create_errhandler"), &made);
  return made;
}
MPI_Errhandler ompi_cxx_errhandler_create_file(AnyFunction* function) {
  MPI_Errhandler made = MPI_ERRHANDLER_NULL;
  (void)MPI_File_create_errhandler(
      Handlers<MPI::File, MPI_File>::of(function, "MPI::File::Create_errhandler"), &made);
  return made;
}

void ompi_mpi_cxx_comm_errhandler_invoke(MPI_Comm* comm, int* code, const char*, void* function) {
  invoke(comm, code, reinterpret_cast<MPI::Comm::Errhandler_function*>(function));
}
void ompi_mpi_cxx_win_errhandler_invoke(MPI_Win* win, int* code, const char*, void* function) {
  invoke(win, code, reinterpret_cast<MPI::Win::Errhandler_function*>(function));
}
void ompi_mpi_cxx_file_errhandler_invoke(MPI_File* file, int* code, const char*, void* function) {
  invoke(file, code, reinterpret_cast<MPI::File::Errhandler_function*>(function));
}
int ompi_cxx_errhandler_invoke_comm(MPI_Comm comm, int code, const char*) {
  return MPI_Comm_call_errhandler(comm, code);
}
int ompi_cxx_errhandler_invoke_file(MPI_File file, int code, const char*) {
  return MPI_File_call_errhandler(file, code);
}

void ompi_mpi_cxx_throw_exception(int* code) { note_error(code); }
void ompi_mpi_cxx_comm_throw_excptn_fctn(MPI_Comm*, int* code, ...) { note_error(code); }
void ompi_mpi_cxx_win_throw_excptn_fctn(MPI_Win*, int* code, ...) { note_error(code); }
void ompi_mpi_cxx_file_throw_excptn_fctn(MPI_File*, int* code, ...) { note_error(code); }

int ompi_mpi_cxx_grequest_query_fn_intercept(void* state, MPI_Status* status) {
  const auto* data = static_cast<MPI::Grequest::Intercept_data_t*>(state);
  MPI::Status object(*status);
  const int error = data->id_cxx_query_fn(data->id_extra, object);
  *status = object;
  return error;
}
int ompi_mpi_cxx_grequest_free_fn_intercept(void* state) {
  auto* data = static_cast<MPI::Grequest::Intercept_data_t*>(state);
  const int error = data->id_cxx_free_fn(data->id_extra);
  delete data;
  return error;
}
int ompi_mpi_cxx_grequest_cancel_fn_intercept(void* state, int completed) {
  const auto* data = static_cast<MPI::Grequest::Intercept_data_t*>(state);
  return data->id_cxx_cancel_fn(data->id_extra, completed != 0);
}

// Between Open MPI's own two libraries; no program calls these.
void ompi_cxx_errhandler_set_callbacks(void*, void*, void*, void*) {
  unsupported("ompi_cxx_errhandler_set_callbacks", "it is internal to Open MPI");
}
void* ompi_cxx_new_intercept_state(void*, void*, void*, void*) {
  unsupported("ompi_cxx_new_intercept_state", "it is internal to Open MPI");
}
char ompi_cxx_intercept_file_extra_state_item_t_class[64];

}  // extern "C"
