// SPDX-License-Identifier: Apache-2.0
// What the core asked for in callbacks.h, said once for every ABI in terms of its abi.h.
#pragma once

#include "frontend/convert.h"
#include "mpi/core.h"

namespace fermata::front {

namespace core = mpi::core;

__thread Gate tls_gate __attribute__((tls_model("initial-exec"), visibility("hidden"))) = {
    .depth = 0, .lock_depth = 0, .interrupted = 0, .attention = kGateNew};
__thread mpi::Slot* tls_culprit
    __attribute__((tls_model("initial-exec"), visibility("hidden"))) = nullptr;

FERMATA_CALLBACK void for_each_predefined(PredefinedVisitor visit, void* context) {
  for (const Canonical& entry : kCanonical) {
    visit(mpi::slot_at(entry.kind, entry.number), entry.kind, entry.number, context);
  }
  for_each_alias(visit, context);
}

FERMATA_CALLBACK i32 app_error_code(int canonical_class) {
  return error_class_out(canonical_class);
}
FERMATA_CALLBACK u64 port_room() { return app::kMaxPortName; }
FERMATA_CALLBACK int app_keyval(int canonical) { return keyval_out(canonical); }
FERMATA_CALLBACK int app_win_flavor(int canonical) { return win_flavor_out(canonical); }
FERMATA_CALLBACK int app_win_model(int canonical) { return win_model_out(canonical); }
FERMATA_CALLBACK int app_rank(int canonical) { return rank_out(canonical); }

// Callbacks in another language than C. The core keeps one word per callback; the top bits, which
// no address has, say how it is called.
inline constexpr u64 kCxxFunction = u64(1) << 63;  // of the C++ bindings: called by a function of
                                                   // their library, itself a further argument
inline constexpr u64 kFortranFunction = u64(1) << 62;  // all by reference, handles as INTEGERs
inline constexpr u64 kFortran77Function = u64(1) << 61;  // MPI-1's: attributes are INTEGERs as well
inline constexpr u64 kProxiedFunction = u64(1) << 60;  // address of a record, see mpich/fortran.h
inline constexpr u64 kForeign =
    kCxxFunction | kFortranFunction | kFortran77Function | kProxiedFunction;
inline void* g_cxx_call_op = nullptr;
inline void* g_cxx_call_errhandler = nullptr;

inline u64 language_of(const void* fn) { return reinterpret_cast<u64>(fn) & kForeign; }
template <class Function>
inline Function function_of(void* fn) {
  return reinterpret_cast<Function>(reinterpret_cast<u64>(fn) & ~kForeign);
}
inline void* function_in(u64 language, void* fn) {
  return reinterpret_cast<void*>(reinterpret_cast<u64>(fn) | language);
}

// Defined in each ABI's cxx.h: `call` is what the bindings' library has handed us.
inline void cxx_call_op(void* call, void* fn, void* in, void* inout, int* len,
                        App<mpi::kDatatype> datatype);
inline void cxx_call_errhandler(void* call, void* fn, Kind kind, void* handle, int* code);

// Defined in each ABI's fortran.h.
inline int foreign_copy_attr(Kind kind, void* fn, Slot* object, int keyval, void* extra,
                             mpi::AttributeValue& in, mpi::AttributeValue* out, int* flag);
inline int foreign_delete_attr(Kind kind, void* fn, Slot* object, int keyval,
                               mpi::AttributeValue& value, void* extra);

FERMATA_CALLBACK void call_user_op(void* fn, void* in, void* inout, int* len,
                                   mpi::DatatypeSlot* datatype) {
  App<mpi::kDatatype> handle = handle_out<mpi::kDatatype>(datatype);
  if (FERMATA_UNLIKELY(language_of(fn) == kCxxFunction)) {
    cxx_call_op(g_cxx_call_op, function_of<void*>(fn), in, inout, len, handle);
    return;
  }
  if (FERMATA_UNLIKELY(language_of(fn) == kFortranFunction)) {
    int integer = to_integer<mpi::kDatatype>(handle);
    function_of<void (*)(void*, void*, int*, int*)>(fn)(in, inout, len, &integer);
    return;
  }
  using UserFunction = void (*)(void*, void*, int*, App<mpi::kDatatype>*);
  reinterpret_cast<UserFunction>(fn)(in, inout, len, &handle);
}

template <Kind kind>
inline int copy_attr(void* fn, Slot* object, int keyval, void* extra, mpi::AttributeValue& in,
                     mpi::AttributeValue* out, int* flag) {
  using Copy = int (*)(App<kind>, int, void*, void*, void*, int*);
  void* const value = in.seen_by_c();
  void* copy = nullptr;
  const int code = reinterpret_cast<Copy>(fn)(handle_out<kind>(mpi::slot_as<kind>(object)), keyval,
                                              extra, value, &copy, flag);
  // The address of an integer, handed through, means the integer: the original may go away.
  *out = copy == value ? in : mpi::AttributeValue{copy, 0};
  return code;
}

template <Kind kind>
inline int delete_attr(void* fn, Slot* object, int keyval, mpi::AttributeValue& value,
                       void* extra) {
  using Delete = int (*)(App<kind>, int, void*, void*);
  return reinterpret_cast<Delete>(fn)(handle_out<kind>(mpi::slot_as<kind>(object)), keyval,
                                      value.seen_by_c(), extra);
}

template <Kind kind>
inline void errhandler(void* fn, Slot* object, int* code) {
  using Handler = void (*)(App<kind>*, int*, ...);
  App<kind> handle = handle_out<kind>(mpi::slot_as<kind>(object));
  if (FERMATA_UNLIKELY(language_of(fn) == kFortranFunction)) {
    int integer = to_integer<kind>(handle);
    function_of<void (*)(int*, int*, ...)>(fn)(&integer, code);
    return;
  }
  if (FERMATA_UNLIKELY(language_of(fn) == kCxxFunction)) {
    cxx_call_errhandler(g_cxx_call_errhandler, function_of<void*>(fn), kind, &handle, code);
    *code = 0;  // else the bindings would call it once more, or throw
    return;
  }
  reinterpret_cast<Handler>(fn)(&handle, code);
}

FERMATA_CALLBACK int call_copy_attr(Kind kind, void* fn, Slot* object, int keyval, void* extra,
                                    mpi::AttributeValue& in, mpi::AttributeValue* out, int* flag) {
  *flag = 0;
  if (fn == nullptr) return 0;  // *_NULL_COPY_FN where it is 0; elsewhere it is a real function
  int number = keyval_out(keyval);
  if (FERMATA_UNLIKELY(language_of(fn))) {
    return error_class_in(foreign_copy_attr(kind, fn, object, number, extra, in, out, flag));
  }
  const auto call = kind == mpi::kComm       ? copy_attr<mpi::kComm>
                    : kind == mpi::kDatatype ? copy_attr<mpi::kDatatype>
                                             : copy_attr<mpi::kWin>;
  return error_class_in(call(fn, object, number, extra, in, out, flag));
}

FERMATA_CALLBACK int call_delete_attr(Kind kind, void* fn, Slot* object, int keyval,
                                      mpi::AttributeValue& value, void* extra) {
  if (fn == nullptr) return 0;
  int number = keyval_out(keyval);
  if (FERMATA_UNLIKELY(language_of(fn))) {
    return error_class_in(foreign_delete_attr(kind, fn, object, number, value, extra));
  }
  const auto call = kind == mpi::kComm       ? delete_attr<mpi::kComm>
                    : kind == mpi::kDatatype ? delete_attr<mpi::kDatatype>
                                             : delete_attr<mpi::kWin>;
  return error_class_in(call(fn, object, number, value, extra));
}

FERMATA_CALLBACK void call_errhandler(Kind kind, void* fn, Slot* object, int* code) {
  switch (kind) {
    case mpi::kComm: return errhandler<mpi::kComm>(fn, object, code);
    case mpi::kWin: return errhandler<mpi::kWin>(fn, object, code);
    case mpi::kSession: return errhandler<mpi::kSession>(fn, object, code);
    default: return errhandler<mpi::kFile>(fn, object, code);
  }
}

// Fortran's have the error as a last argument, by reference like all others.
FERMATA_CALLBACK int call_grequest_query(void* fn, void* extra, CanonStatus* status) {
  AppStatus app = {};
  status_out(*status, &app);
  int code = 0;
  if (FERMATA_UNLIKELY(language_of(fn) == kFortranFunction)) {
    function_of<void (*)(void*, AppStatus*, int*)>(fn)(extra, &app, &code);
  } else {
    code = reinterpret_cast<int (*)(void*, AppStatus*)>(fn)(extra, &app);
  }
  *status = status_in(&app);
  return error_class_in(code);
}
FERMATA_CALLBACK int call_grequest_free(void* fn, void* extra) {
  if (FERMATA_LIKELY(language_of(fn) != kFortranFunction))
    return error_class_in(reinterpret_cast<int (*)(void*)>(fn)(extra));
  int code = 0;
  function_of<void (*)(void*, int*)>(fn)(extra, &code);
  return error_class_in(code);
}
FERMATA_CALLBACK int call_grequest_cancel(void* fn, void* extra, int complete) {
  if (FERMATA_LIKELY(language_of(fn) != kFortranFunction))
    return error_class_in(reinterpret_cast<int (*)(void*, int)>(fn)(extra, complete));
  int code = 0;
  function_of<void (*)(void*, int*, int*)>(fn)(extra, &complete, &code);
  return error_class_in(code);
}

// Neighbourhood calls size their arrays by degree, the others by the (remote) group.
FERMATA_CALLBACK void peer_counts(mpi::CommSlot* comm, int* sends, int* receives) {
  int inter = 0, size = 0;
  core::Comm_test_inter(comm, &inter);
  if (inter) {
    core::Comm_remote_size(comm, &size);
  } else {
    core::Comm_size(comm, &size);
  }
  *sends = *receives = size;
}

FERMATA_CALLBACK void degree_counts(mpi::CommSlot* comm, int* sends, int* receives) {
  int topology = 0, weighted = 0, rank = 0, count = 0;
  core::Topo_test(comm, &topology);
  *sends = *receives = 0;
  if (topology == abi::kCart) {
    core::Cartdim_get(comm, &count);
    *sends = *receives = 2 * count;
  } else if (topology == abi::kGraph) {
    core::Comm_rank(comm, &rank);
    core::Graph_neighbors_count(comm, rank, &count);
    *sends = *receives = count;
  } else if (topology == abi::kDistGraph) {
    core::Dist_graph_neighbors_count(comm, receives, sends, &weighted);
  }
}

// The integers of a subarray or darray hold constants whose values differ between ABIs.
inline void contents_out(mpi::DatatypeSlot* datatype, int max_integers, int* integers) {
  int count = 0, addresses = 0, types = 0, combiner = 0;
  if (core::Type_get_envelope(datatype, &count, &addresses, &types, &combiner) != 0) return;
  if (count > max_integers) return;
  if (combiner == abi::kCombinerSubarray) integers[count - 1] = order_out(integers[count - 1]);
  if (combiner != abi::kCombinerDarray) return;
  int dims = integers[2];
  integers[count - 1] = order_out(integers[count - 1]);
  numbers_out(integers + 3 + dims, dims, distribution_out);
  numbers_out(integers + 3 + 2 * dims, dims, distribution_argument_out);
}

// MPI_BUFFER_AUTOMATIC comes back as the application's.
inline void detached_out(void* address) {
  void** const at = static_cast<void**>(address);
  if (at) *at = buffer_out(*at);
}

// An application may not see a newer MPI than the header it was compiled with.
inline void version_out(int* version, int* subversion) {
  if (*version < app::kVersion) return;
  if (*version == app::kVersion && *subversion < app::kSubversion) return;
  *version = app::kVersion;
  *subversion = app::kSubversion;
}

}  // namespace fermata::front
