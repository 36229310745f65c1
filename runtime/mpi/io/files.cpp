// SPDX-License-Identifier: Apache-2.0
#include "mpi/io/files.h"

#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/own_comms.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/references.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/objects/datatypes.h"
#include "mpi/objects/errors.h"
#include "mpi/objects/infos.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

/// Copies what a real info object says into one of the application's.
int info_take(RealInfo real, InfoSlot* info) {
  int keys = 0;
  const int error = lower().Info_get_nkeys(real, &keys);
  for (int n = 0; n < keys && !error; n++) {
    char key[kMaxInfoKey + 1], value[kMaxInfoVal + 1];
    int flag = 0;
    if (lower().Info_get_nthkey(real, n, key)) continue;
    if (lower().Info_get(real, key, kMaxInfoVal - 1, value, &flag) || !flag) continue;
    (void)core::Info_set(info, key, value);
  }
  return error;
}

void file_forget(File* file) {
  if (file->etype) type_unref(file->etype);
  if (file->filetype) type_unref(file->filetype);
  if (file->errhandler) errhandler_unref(file->errhandler);
  arena_free(file->name);
  arena_free(file->datarep);
  slot_free(file->slot);
  arena_free(file);
}

}  // namespace

bool files_note_positions() {
  int error = kSuccess;
  for_each_live<kFile>([&](FileSlot* slot) {
    File* const file = file_of(slot);
    FERMATA_CHECK(slot->clock == file->comm->clock,
                  "a file is counted on the clock of its communicator");
    if (file->amode & abi::kModeSequential) return;
    if (!error) error = lower().File_get_position(slot->real(), &file->position);
    if (!error && file->uses_shared)
      error = lower().File_get_position_shared(slot->real(), &file->shared);
  });
  return error == kSuccess;
}

const char* reason_not_to_save_files() {
  const char* reason = nullptr;
  for_each_live<kFile>([&](FileSlot* slot) {
    if (file_of(slot)->amode & abi::kModeSequential)
      reason = "a file is open with MPI_MODE_SEQUENTIAL, whose position cannot be restored";
  });
  return reason;
}

int file_seek_shared(File* file) {
  i64 own = file->uses_shared ? file->shared : -1, all = -1;
  const int error = lower().Allreduce(&own, &all, 1, slot_at<kDatatype>(abi::kInt64T)->real(),
                                      slot_at<kOp>(abi::kMax)->real(), file->comm->real());
  if (error || all < 0) return error;
  file->uses_shared = true;
  return lower().File_seek_shared(file->slot->real(), all, abi::kSeekSet);
}

int file_reopen(File* file) {
  const MpiCalls& mpi = lower();
  RealFile* const real = &file->slot->real();
  const LowerInfo hints(file->info);
  const int amode = file->amode & ~(abi::kModeCreate | abi::kModeExcl);
  int error = mpi.File_open(file->comm->real(), file->name, amode, hints.real(), real);
  if (!error && file->datarep)
    error = mpi.File_set_view(*real, file->view_at, file->etype->real(), file->filetype->real(),
                              file->datarep, hints.real());
  if (!error) error = mpi.File_seek(*real, file->position, abi::kSeekSet);
  if (!error && !(file->amode & abi::kModeSequential)) error = file_seek_shared(file);
  if (!error && file->atomic) error = mpi.File_set_atomicity(*real, 1);
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int File_open(CommSlot* comm, const char* name, int amode, InfoSlot* info, FileSlot** fh) {
  return with_own_comm(comm, [&](CommSlot* made) {
    RealFile real{};
    const LowerInfo hints(info);
    int error;
    {
      const BlockingCall open;
      error = lower().File_open(made->real(), name, amode, hints.real(), &real);
    }
    error = members_agree(made, error);
    if (error) {
      own_comm_discard(made);
      return error;
    }
    File* const file = arena_new<File>();
    file->comm = made;
    file->name = text_copy(name);
    file->amode = amode;
    file->uses_shared = amode & abi::kModeAppend;  // it stands at the end that there is now
    file->slot = slot_new<kFile>(file);
    file->slot->real() = real;
    file->slot->clock = made->clock;
    if (is_info(info)) (void)Info_dup(info, &file->info);
    if (state().io.null_errhandler) errhandler_ref(state().io.null_errhandler);
    file->errhandler = state().io.null_errhandler;
    *fh = file->slot;
    return int(kSuccess);
  });
}

int File_close(FileSlot** fh) {
  File* const file = file_of(*fh);
  if (!file) return kErrFile;
  CommSlot* comm = file->comm;
  {
    CollectiveScope scope(*fh);
    int error;
    {
      const BlockingCall open;
      error = lower().File_close(&file->slot->real());
    }
    if (error) return error;
    if (file->info) (void)Info_free(&file->info);
    file_forget(file);
    *fh = null_of<kFile>();
  }
  return own_comm_free(comm);
}

int File_delete(const char* name, InfoSlot*) {
  LowerScope scope;
  return lower().File_delete(name, no_info());
}

int File_set_view(FileSlot* fh, i64 at, DatatypeSlot* etype, DatatypeSlot* filetype,
                  const char* datarep, InfoSlot* info) {
  File* const file = file_of(fh);
  if (!file) return kErrFile;
  CollectiveScope scope(fh);
  const LowerInfo hints(info);
  int error;
  {
    const BlockingCall open;
    error = lower().File_set_view(fh->real(), at, etype->real(), filetype->real(), datarep,
                                  hints.real());
  }
  if (error) return error;
  type_ref(etype);
  type_ref(filetype);
  if (file->etype) type_unref(file->etype);
  if (file->filetype) type_unref(file->filetype);
  arena_free(file->datarep);
  file->view_at = at;
  file->etype = etype;
  file->filetype = filetype;
  file->datarep = text_copy(datarep);
  return kSuccess;
}
int File_get_view(FileSlot* fh, i64* at, DatatypeSlot** etype, DatatypeSlot** filetype,
                  char* datarep) {
  LowerScope scope;
  const File* const file = file_of(fh);
  if (!file) return kErrFile;
  *at = file->view_at;
  *etype = file->etype ? file->etype : front::predefined<kDatatype>(kByte);
  *filetype = file->filetype ? file->filetype : front::predefined<kDatatype>(kByte);
  type_hand_out(*etype);
  type_hand_out(*filetype);
  copy_truncated(datarep, file->datarep ? file->datarep : "native", kMaxDatarepString - 1);
  return kSuccess;
}

int File_get_amode(FileSlot* fh, int* amode) {
  const File* const file = file_of(fh);
  if (!file) return kErrFile;
  *amode = file->amode;
  return kSuccess;
}
int File_get_group(FileSlot* fh, GroupSlot** group) {
  const File* const file = file_of(fh);
  return file ? Comm_group(file->comm, group) : int(kErrFile);
}
int File_set_atomicity(FileSlot* fh, int flag) {
  File* const file = file_of(fh);
  if (!file) return kErrFile;
  CollectiveScope scope(fh);
  const BlockingCall open;
  const int error = lower().File_set_atomicity(fh->real(), flag);
  if (!error) file->atomic = flag;
  return error;
}

int File_set_info(FileSlot* fh, InfoSlot* info) {
  File* const file = file_of(fh);
  if (!file) return kErrFile;
  CollectiveScope scope(fh);
  const LowerInfo hints(info);
  int error;
  {
    const BlockingCall open;
    error = lower().File_set_info(fh->real(), hints.real());
  }
  if (error) return error;
  if (!is_info(info) || !info_of(info)) return kSuccess;
  if (!file->info) return Info_dup(info, &file->info);
  for (const InfoPair* pair = info_of(info)->first; pair; pair = pair->next)
    (void)Info_set(file->info, pair->key, pair->value);
  return kSuccess;
}
/// What the lower half says is in force; a program reads values that depend on the MPI here anyway.
int File_get_info(FileSlot* fh, InfoSlot** info) {
  LowerScope scope;
  if (!file_of(fh)) return kErrFile;
  RealInfo real{};
  int error = lower().File_get_info(fh->real(), &real);
  if (!error) error = Info_create(info);
  if (error) return error;
  error = info_take(real, *info);
  may_leak(lower().Info_free(&real));
  return error;
}

int File_create_errhandler(void* fn, ErrhandlerSlot** errhandler) {
  return errhandler_new(kFile, fn, errhandler);
}
// A representation without conversion functions is a name, which no real MPI takes for a view: they
// know their own. One with functions is refused.
int Register_datarep(const char* name, void* read_fn, void* write_fn, void*, void*) {
  const LowerScope scope;
  if (read_fn || write_fn) return kErrUnsupportedOperation;
  constexpr const char* kKnown[] = {"native", "internal", "external32"};
  for (const char* known : kKnown)
    if (text_equal(known, name)) return kErrDupDatarep;
  for (const Datarep* known = state().io.datareps; known; known = known->next)
    if (text_equal(known->name, name)) return kErrDupDatarep;
  Datarep* const made = arena_new<Datarep>();
  made->name = text_copy(name);
  made->next = state().io.datareps;
  state().io.datareps = made;
  return kSuccess;
}

int Register_datarep_c(const char* name, void* read_fn, void* write_fn, void* extent_fn,
                       void* extra) {
  return Register_datarep(name, read_fn, write_fn, extent_fn, extra);
}

// MPI_FILE_NULL stands for files that are yet to be opened.
int File_set_errhandler(FileSlot* fh, ErrhandlerSlot* errhandler) {
  File* const file = file_of(fh);
  return set_errhandler(file ? &file->errhandler : &state().io.null_errhandler, errhandler);
}
int File_get_errhandler(FileSlot* fh, ErrhandlerSlot** errhandler) {
  const File* const file = file_of(fh);
  return get_errhandler(file ? file->errhandler : state().io.null_errhandler, kErrorsReturn,
                        errhandler);
}
int File_call_errhandler(FileSlot* fh, int errorcode) {
  (void)raise(fh, errorcode, "MPI_File_call_errhandler");
  return kSuccess;
}

}  // namespace fermata::mpi::core
