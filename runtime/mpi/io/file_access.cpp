// SPDX-License-Identifier: Apache-2.0
// The reads and writes of MPI files that need more than a straight call: requests, the shared file
// pointer, split collectives. (The others are generated, in core.gen.h.)
//
// A split collective does all its work in the begin call, which MPI allows, and keeps the outcome
// for the end call; so no image holds one half done.
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/lower_request.h"

namespace fermata::mpi {
namespace {

/// The file behind a handle, and from now on its shared pointer is in use. Null: no file.
File* file_shared(FileSlot* fh) {
  File* const file = file_of(fh);
  if (file) file->uses_shared = true;
  return file;
}

/// A request begun by all members of the file, like a non-blocking collective call.
template <typename Begin>
int file_collective_begin(FileSlot* fh, RequestSlot** handle, Begin begin) {
  if (!file_of(fh)) return kErrFile;
  CollectiveScope scope(fh);
  const int error = lower_request(fh, handle, begin);
  if (error) return error;
  request_of(*handle)->kind = RequestKind::kCollective;
  request_of(*handle)->order = ++state().p2p.post_order;
  return kSuccess;
}

/// Runs a split collective's whole operation. `operation(status)` makes the blocking lower call.
template <typename Operation>
int split_begin(FileSlot* fh, Operation operation) {
  File* const file = file_of(fh);
  if (!file) return kErrFile;
  if (file->split_open) return kErrOther;  // one at a time (MPI 4.1, 14.4.5)
  CollectiveScope scope(fh);
  file->split_status = CanonStatus{};
  {
    const BlockingCall open;
    file->split_error = operation(&file->split_status);
  }
  file->split_open = true;
  return kSuccess;
}

int split_end(FileSlot* fh, CanonStatus* status) {
  File* const file = file_of(fh);
  if (!file) return kErrFile;
  if (!file->split_open) return kErrOther;
  file->split_open = false;
  if (status) *status = file->split_status;
  return file->split_error;
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {

// --- requests ------------------------------------------------------------------------------------

int File_iread(FileSlot* fh, void* buf, int count, DatatypeSlot* type, RequestSlot** request) {
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iread(fh->real(), buf, count, type->real(), real);
  });
}
int File_iwrite(FileSlot* fh, const void* buf, int count, DatatypeSlot* type,
                RequestSlot** request) {
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iwrite(fh->real(), buf, count, type->real(), real);
  });
}
int File_iread_at(FileSlot* fh, i64 at, void* buf, int count, DatatypeSlot* type,
                  RequestSlot** request) {
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iread_at(fh->real(), at, buf, count, type->real(), real);
  });
}
int File_iwrite_at(FileSlot* fh, i64 at, const void* buf, int count, DatatypeSlot* type,
                   RequestSlot** request) {
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iwrite_at(fh->real(), at, buf, count, type->real(), real);
  });
}
int File_iread_all(FileSlot* fh, void* buf, int count, DatatypeSlot* type, RequestSlot** request) {
  return file_collective_begin(fh, request, [&](RealRequest* real) {
    return lower().File_iread_all(fh->real(), buf, count, type->real(), real);
  });
}
int File_iwrite_all(FileSlot* fh, const void* buf, int count, DatatypeSlot* type,
                    RequestSlot** request) {
  return file_collective_begin(fh, request, [&](RealRequest* real) {
    return lower().File_iwrite_all(fh->real(), buf, count, type->real(), real);
  });
}
int File_iread_at_all(FileSlot* fh, i64 at, void* buf, int count, DatatypeSlot* type,
                      RequestSlot** request) {
  return file_collective_begin(fh, request, [&](RealRequest* real) {
    return lower().File_iread_at_all(fh->real(), at, buf, count, type->real(), real);
  });
}
int File_iwrite_at_all(FileSlot* fh, i64 at, const void* buf, int count, DatatypeSlot* type,
                       RequestSlot** request) {
  return file_collective_begin(fh, request, [&](RealRequest* real) {
    return lower().File_iwrite_at_all(fh->real(), at, buf, count, type->real(), real);
  });
}

// --- the shared file pointer ---------------------------------------------------------------------

int File_iread_shared(FileSlot* fh, void* buf, int count, DatatypeSlot* type,
                      RequestSlot** request) {
  if (!file_shared(fh)) return kErrFile;
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iread_shared(fh->real(), buf, count, type->real(), real);
  });
}
int File_iwrite_shared(FileSlot* fh, const void* buf, int count, DatatypeSlot* type,
                       RequestSlot** request) {
  if (!file_shared(fh)) return kErrFile;
  return lower_request(fh, request, [&](RealRequest* real) {
    return lower().File_iwrite_shared(fh->real(), buf, count, type->real(), real);
  });
}
int File_read_shared(FileSlot* fh, void* buf, int count, DatatypeSlot* type, CanonStatus* status) {
  LowerScope scope;
  if (!file_shared(fh)) return kErrFile;
  return lower().File_read_shared(fh->real(), buf, count, type->real(), status);
}
int File_write_shared(FileSlot* fh, const void* buf, int count, DatatypeSlot* type,
                      CanonStatus* status) {
  LowerScope scope;
  if (!file_shared(fh)) return kErrFile;
  return lower().File_write_shared(fh->real(), buf, count, type->real(), status);
}
int File_get_position_shared(FileSlot* fh, i64* offset) {
  LowerScope scope;
  if (!file_shared(fh)) return kErrFile;
  return lower().File_get_position_shared(fh->real(), offset);
}
int File_seek_shared(FileSlot* fh, i64 offset, int whence) {
  if (!file_shared(fh)) return kErrFile;
  CollectiveScope scope(fh);
  const BlockingCall open;
  return lower().File_seek_shared(fh->real(), offset, whence);
}
int File_read_ordered(FileSlot* fh, void* buf, int count, DatatypeSlot* type, CanonStatus* status) {
  if (!file_shared(fh)) return kErrFile;
  CollectiveScope scope(fh);
  const BlockingCall open;
  return lower().File_read_ordered(fh->real(), buf, count, type->real(), status);
}
int File_write_ordered(FileSlot* fh, const void* buf, int count, DatatypeSlot* type,
                       CanonStatus* status) {
  if (!file_shared(fh)) return kErrFile;
  CollectiveScope scope(fh);
  const BlockingCall open;
  return lower().File_write_ordered(fh->real(), buf, count, type->real(), status);
}

// --- split collectives ---------------------------------------------------------------------------

int File_read_all_begin(FileSlot* fh, void* buf, int count, DatatypeSlot* type) {
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_read_all(fh->real(), buf, count, type->real(), status);
  });
}
int File_write_all_begin(FileSlot* fh, const void* buf, int count, DatatypeSlot* type) {
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_write_all(fh->real(), buf, count, type->real(), status);
  });
}
int File_read_at_all_begin(FileSlot* fh, i64 at, void* buf, int count, DatatypeSlot* type) {
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_read_at_all(fh->real(), at, buf, count, type->real(), status);
  });
}
int File_write_at_all_begin(FileSlot* fh, i64 at, const void* buf, int count, DatatypeSlot* type) {
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_write_at_all(fh->real(), at, buf, count, type->real(), status);
  });
}
int File_read_ordered_begin(FileSlot* fh, void* buf, int count, DatatypeSlot* type) {
  if (!file_shared(fh)) return kErrFile;
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_read_ordered(fh->real(), buf, count, type->real(), status);
  });
}
int File_write_ordered_begin(FileSlot* fh, const void* buf, int count, DatatypeSlot* type) {
  if (!file_shared(fh)) return kErrFile;
  return split_begin(fh, [&](CanonStatus* status) {
    return lower().File_write_ordered(fh->real(), buf, count, type->real(), status);
  });
}
int File_read_all_end(FileSlot* fh, void*, CanonStatus* status) { return split_end(fh, status); }
int File_write_all_end(FileSlot* fh, const void*, CanonStatus* status) {
  return split_end(fh, status);
}
int File_read_at_all_end(FileSlot* fh, void*, CanonStatus* status) { return split_end(fh, status); }
int File_write_at_all_end(FileSlot* fh, const void*, CanonStatus* status) {
  return split_end(fh, status);
}
int File_read_ordered_end(FileSlot* fh, void*, CanonStatus* status) {
  return split_end(fh, status);
}
int File_write_ordered_end(FileSlot* fh, const void*, CanonStatus* status) {
  return split_end(fh, status);
}

}  // namespace fermata::mpi::core
