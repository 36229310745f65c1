// SPDX-License-Identifier: Apache-2.0
// What MPICH's Fortran library (libmpichfort.so.12, libmpifort.so.12) asks of its C library beside
// MPI's own functions.
//
// That library is a translator from Fortran to C, with nothing of an MPI in it, so the application
// keeps its own as any other library of its (decision 0022). It lies on the functions below: they
// know the language in which an attribute was set, and call Fortran callbacks through *proxies*,
// functions of that library that unpack the arguments.
#pragma once

#include "frontend/calls.h"

namespace fermata::front {

// How an attribute is set or wanted: MPICH's numbers; AttributeValue::integer holds one of them.
inline constexpr int kAttributePointer = 0;

using CopyProxy = int (*)(void* fn, int handle, int keyval, void* extra, int integer, void* value,
                          void** copy, int* flag);
using DeleteProxy = int (*)(void* fn, int handle, int keyval, int integer, void* value,
                            void* extra);

// What a keyval holds in place of a callback that is called through a proxy.
template <class Proxy>
struct Proxied {
  void* fn;
  Proxy proxy;
};

template <class Proxy>
inline void* proxied(void* fn, Proxy proxy) {
  if (fn == nullptr) return nullptr;
  mpi::LowerScope scope;
  auto* record = mpi::arena_new<Proxied<Proxy>>();
  *record = {fn, proxy};
  return reinterpret_cast<void*>(reinterpret_cast<u64>(record) | kProxiedFunction);
}

inline int integer_of(Kind kind, Slot* object) {
  switch (kind) {
    case mpi::kComm: return handle_out<mpi::kComm>(mpi::slot_as<mpi::kComm>(object));
    case mpi::kDatatype: return handle_out<mpi::kDatatype>(mpi::slot_as<mpi::kDatatype>(object));
    default: return handle_out<mpi::kWin>(mpi::slot_as<mpi::kWin>(object));
  }
}

inline int foreign_copy_attr(Kind kind, void* fn, Slot* object, int keyval, void* extra,
                             mpi::AttributeValue& in, mpi::AttributeValue* out, int* flag) {
  const auto* record = function_of<Proxied<CopyProxy>*>(fn);
  *out = {nullptr, in.integer};
  return record->proxy(record->fn, integer_of(kind, object), keyval, extra, in.integer, in.word,
                       &out->word, flag);
}

inline int foreign_delete_attr(Kind kind, void* fn, Slot* object, int keyval,
                               mpi::AttributeValue& value, void* extra) {
  const auto* record = function_of<Proxied<DeleteProxy>*>(fn);
  return record->proxy(record->fn, integer_of(kind, object), keyval, value.integer, value.word,
                       extra);
}

extern "C" FERMATA_EXPORT void MPII_Keyval_set_proxy(int keyval, CopyProxy copy,
                                                     DeleteProxy remove) {
  mpi::Keyval* const made = mpi::keyval_of(keyval_in(keyval));
  if (made == nullptr) return;
  made->copy_fn = proxied(made->copy_fn, copy);
  made->delete_fn = proxied(made->delete_fn, remove);
}

// Fortran's number of a predefined keyval is C's and one: even where C's is odd.
inline int keyval_of_fortran(int keyval) {
  const bool predefined = (keyval & 0x7fff'ff00) == 0x6440'0000 || (keyval >> 24) == 0x66;
  return keyval_in(predefined && keyval % 2 == 0 ? keyval - 1 : keyval);
}

// An integer that is asked for fills the whole word, whatever its kind.
template <Kind kind>
inline int get_attr(int handle, int keyval, void* value, int* flag, int wanted, const char* name) {
  SlotOf<kind>* const object = handle_in<kind>(handle);
  const int number = keyval_of_fortran(keyval);
  int error = 0;
  if (wanted != kAttributePointer) {
    error = mpi::attribute_get_integer(kind, object, number, static_cast<i64*>(value), flag);
  } else if constexpr (kind == mpi::kComm) {
    error = core::Comm_get_attr(object, number, value, flag);
  } else if constexpr (kind == mpi::kDatatype) {
    error = core::Type_get_attr(object, number, value, flag);
  } else {
    error = core::Win_get_attr(object, number, value, flag);
  }
  return error == 0 ? 0 : core::raise(object, error, name);
}

template <Kind kind>
inline int set_attr(int handle, int keyval, void* value, int integer, const char* name) {
  SlotOf<kind>* const object = handle_in<kind>(handle);
  const int error =
      mpi::attribute_set_integer(kind, object, keyval_in(keyval), {value, integer});
  return error == 0 ? 0 : core::raise(object, error, name);
}

#define FERMATA_ATTRIBUTES(name, kind)                                                      \
  extern "C" FERMATA_EXPORT int MPII_##name##_get_attr(int handle, int keyval, void* value, \
                                                       int* flag, int wanted) {             \
    return get_attr<kind>(handle, keyval, value, flag, wanted, "MPI_" #name "_get_attr");   \
  }                                                                                         \
  extern "C" FERMATA_EXPORT int MPII_##name##_set_attr(int handle, int keyval, void* value, \
                                                       int integer) {                       \
    return set_attr<kind>(handle, keyval, value, integer, "MPI_" #name "_set_attr");        \
  }

FERMATA_ATTRIBUTES(Comm, mpi::kComm)
FERMATA_ATTRIBUTES(Type, mpi::kDatatype)
FERMATA_ATTRIBUTES(Win, mpi::kWin)

// Says that the callbacks of a generalized request, just made, are Fortran's.
extern "C" FERMATA_EXPORT void MPII_Grequest_set_lang_f77(int request) {
  mpi::Generalized* const made =
      mpi::generalized_of(mpi::request_of(handle_in<mpi::kRequest>(request)));
  made->query_fn = function_in(kFortranFunction, made->query_fn);
  made->free_fn = function_in(kFortranFunction, made->free_fn);
  made->cancel_fn = function_in(kFortranFunction, made->cancel_fn);
}

}  // namespace fermata::front
