// SPDX-License-Identifier: Apache-2.0
// The moved paths stand behind the string table in a copy of it, and the entries name them there.
// The tables lie in memory of the reader's own, so they may be written to.
#include "image/moved.h"

#include "sys/sys.h"

namespace fermata::image {
namespace {

struct Fit {
  const char* to = nullptr;
  const char* rest = nullptr;  // of the path
  u64 bytes() const { return text_length(to) + text_length(rest) + 1; }
};

Fit fitting(const char* path, const Move* moves, u32 count) {
  Fit fit;
  u64 longest = 0;
  for (u32 i = 0; i < count; i++) {
    const u64 length = text_length(moves[i].from);
    const char* const rest = path[0] == '/' ? behind(path, moves[i].from) : nullptr;
    if (!rest || (fit.to && length <= longest)) continue;
    fit = {moves[i].to, rest};
    longest = length;
  }
  return fit;
}

/// Calls visit(offset) for the place in the string table of every path of the image. What is no
/// path there, as names of attributes, does not begin with a slash.
template <typename Visit>
void each_path(const Reader& reader, Visit visit) {
  const auto visit_all = [&](const auto* entries, u64 count) {
    for (u64 i = 0; i < count; i++) visit(const_cast<u32&>(entries[i].path_string));
  };
  const ImageHeader& h = *reader.header;
  visit(const_cast<u32&>(h.executable_string));
  visit(const_cast<u32&>(h.cwd_string));
  visit_all(reader.regions, h.regions.count);
  visit_all(reader.objects, h.objects.count);
  visit_all(reader.files, h.files.count);
  visit_all(reader.members, h.members.count);
}

}  // namespace

Status move_paths(Reader& reader, const Move* moves, u32 count) {
  u64 bytes = reader.string_bytes;
  each_path(reader, [&](u32& offset) {
    const Fit fit = fitting(reader.string(offset), moves, count);
    if (fit.to) bytes += fit.bytes();
  });
  if (bytes == reader.string_bytes) return success();
  if (bytes > ~u32(0)) return failure(sys::kEinval);
  const Result<u64> map = sys::mmap(0, bytes, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  if (!map) return failure(map.error);
  char* const strings = reinterpret_cast<char*>(map.value);
  __builtin_memcpy(strings, reader.strings, reader.string_bytes);
  u64 end = reader.string_bytes;
  each_path(reader, [&](u32& offset) {
    const Fit fit = fitting(reader.string(offset), moves, count);
    if (!fit.to) return;
    const u64 of_start = text_length(fit.to), of_rest = text_length(fit.rest) + 1;
    __builtin_memcpy(strings + end, fit.to, of_start);
    __builtin_memcpy(strings + end + of_start, fit.rest, of_rest);
    offset = u32(end);
    end += of_start + of_rest;
  });
  reader.strings = strings;
  reader.string_bytes = reader.moved_bytes = bytes;
  return success();
}

}  // namespace fermata::image
