// SPDX-License-Identifier: Apache-2.0
// Attribute callbacks: a keyval's extra state is a record with the application's functions, in
// C or in C++ form, and our callbacks translate the arguments for the latter.
#include "frontend/bindings/cxx/glue.h"

namespace {

enum CommClass { kUnknown, kIntracomm, kIntercomm, kCartcomm, kGraphcomm };

CommClass class_of(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return kUnknown;
  int inter = 0, topology = MPI_UNDEFINED;
  if (MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return kUnknown;
  if (inter) return kIntercomm;
  if (MPI_Topo_test(comm, &topology) != MPI_SUCCESS) return kUnknown;
  if (topology == MPI_CART) return kCartcomm;
  return topology == MPI_GRAPH ? kGraphcomm : kIntracomm;
}

// Calls `body` with the communicator as an object of its own class.
template <typename Body>
int with_comm(MPI_Comm comm, Body body) {
  switch (class_of(comm)) {
    case kIntercomm: {
      MPI::Intercomm object(comm);
      return body(object);
    }
    case kCartcomm: {
      MPI::Cartcomm object(comm);
      return body(object);
    }
    case kGraphcomm: {
      MPI::Graphcomm object(comm);
      return body(object);
    }
    default: {
      MPI::Intracomm object(comm);
      return body(object);
    }
  }
}

template <typename Body>
int with_type(MPI_Datatype type, Body body) {
  MPI::Datatype object(type);
  return body(object);
}

template <typename Body>
int with_win(MPI_Win win, Body body) {
  MPI::Win object(win);
  return body(object);
}

// The record of a keyval. It lives as long as the process: objects may keep attributes after the
// keyval is freed.
template <typename Class, typename Copy, typename Delete>
typename Class::keyval_intercept_data_t* new_record(
    Copy* c_copy, Delete* c_delete, typename Class::Copy_attr_function* cxx_copy,
    typename Class::Delete_attr_function* cxx_delete, void* extra_state) {
  return new typename Class::keyval_intercept_data_t{c_copy, c_delete, cxx_copy, cxx_delete,
                                                     extra_state};
}

}  // namespace

// One pair of callbacks, and the function that makes a keyval of them, for each class. A record
// without a copy function of either kind means that the attribute is not copied.
#define FERMATA_ATTRIBUTES(Class, lower, Handle, Create)                                          \
  static int lower##_copy(Handle object, int keyval, void* extra, void* in, void* out,            \
                          int* flag) {                                                            \
    const auto* record = static_cast<MPI::Class::keyval_intercept_data_t*>(extra);                \
    if (record->c_copy_fn)                                                                        \
      return record->c_copy_fn(object, keyval, record->extra_state, in, out, flag);               \
    *flag = 0;                                                                                    \
    if (!record->cxx_copy_fn) return MPI_SUCCESS;                                                 \
    return with_##lower(object, [&](MPI::Class& wrapped) {                                        \
      bool copied = false;                                                                        \
      const int error =                                                                           \
          record->cxx_copy_fn(wrapped, keyval, record->extra_state, in, out, copied);             \
      *flag = copied;                                                                             \
      return error;                                                                               \
    });                                                                                           \
  }                                                                                               \
  static int lower##_delete(Handle object, int keyval, void* value, void* extra) {                \
    const auto* record = static_cast<MPI::Class::keyval_intercept_data_t*>(extra);                \
    if (record->c_delete_fn)                                                                      \
      return record->c_delete_fn(object, keyval, value, record->extra_state);                     \
    if (!record->cxx_delete_fn) return MPI_SUCCESS;                                               \
    return with_##lower(object, [&](MPI::Class& wrapped) {                                        \
      return record->cxx_delete_fn(wrapped, keyval, value, record->extra_state);                  \
    });                                                                                           \
  }                                                                                               \
  int MPI::Class::do_create_keyval(                                                               \
      MPI_##Create##_copy_attr_function* c_copy, MPI_##Create##_delete_attr_function* c_delete,   \
      Copy_attr_function* cxx_copy, Delete_attr_function* cxx_delete, void* extra_state,          \
      int& keyval) {                                                                              \
    return MPI_##Create##_create_keyval(                                                          \
        lower##_copy, lower##_delete, &keyval,                                                    \
        new_record<MPI::Class>(c_copy, c_delete, cxx_copy, cxx_delete, extra_state));             \
  }                                                                                               \
  extern "C" int ompi_mpi_cxx_##lower##_delete_attr_intercept(Handle object, int keyval,          \
                                                              void* value, void* extra) {         \
    return lower##_delete(object, keyval, value, extra);                                          \
  }                                                                                               \
  extern "C" int ompi_cxx_attr_create_keyval_##lower(                                             \
      MPI_##Create##_copy_attr_function* copy, MPI_##Create##_delete_attr_function* remove,       \
      int* keyval, void* extra_state, int, void*) {                                               \
    return MPI_##Create##_create_keyval(copy, remove, keyval, extra_state);                       \
  }

FERMATA_ATTRIBUTES(Comm, comm, MPI_Comm, Comm)
FERMATA_ATTRIBUTES(Datatype, type, MPI_Datatype, Type)
FERMATA_ATTRIBUTES(Win, win, MPI_Win, Win)

extern "C" {

// Open MPI's own form has the new communicator as a seventh argument.
int ompi_mpi_cxx_comm_copy_attr_intercept(MPI_Comm object, int keyval, void* extra, void* in,
                                          void* out, int* flag, MPI_Comm) {
  return comm_copy(object, keyval, extra, in, out, flag);
}
int ompi_mpi_cxx_type_copy_attr_intercept(MPI_Datatype object, int keyval, void* extra, void* in,
                                          void* out, int* flag) {
  return type_copy(object, keyval, extra, in, out, flag);
}
int ompi_mpi_cxx_win_copy_attr_intercept(MPI_Win object, int keyval, void* extra, void* in,
                                         void* out, int* flag) {
  return win_copy(object, keyval, extra, in, out, flag);
}

int ompi_cxx_comm_get_type(MPI_Comm comm) { return class_of(comm); }

}  // extern "C"
