// SPDX-License-Identifier: Apache-2.0
// The identity of a program file has three readers, which must agree: the finder of FS prefixes
// stores by it what the launcher looks for, and `restart` compares files by what images say.
#include <string.h>

#include "bytes.h"
#include "image/build_id.h"
#include "sites/store.h"

using namespace fermata;

/// The control plane's reader: bytes of the identity, -1 if the file cannot be read.
extern "C" i32 fermata_fuzz_build_id(const char* path, char* hex, size_t capacity);

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static fuzz::MemoryFile memory;
  memory.hold(data, size);
  const image::BuildId ours = image::build_id(memory.fd());
  REQUIRE(ours.size <= sizeof ours.bytes);
  Text<48> hex;
  image::print_build_id(ours, hex);
  char theirs[64];
  const i32 length = fermata_fuzz_build_id(memory.path(), theirs, sizeof theirs);
  REQUIRE(length == i32(hex.size) && memcmp(theirs, hex.data, hex.size) == 0);
  sites::ElfFile file;
  if (!file.open(memory.path()).empty()) return 0;
  REQUIRE(sites::hex(file.build_id()) == hex.data);
  return 0;
}
