// SPDX-License-Identifier: Apache-2.0
// Datagrams about the nodes of a run (control/membership). Input: a stream of them, as
// fermata_fuzz_membership in control/fuzz takes it.
#include "bytes.h"

extern "C" fermata::u32 fermata_fuzz_membership(const fermata::u8* stream, size_t bytes);

extern "C" int LLVMFuzzerTestOneInput(const fermata::u8* data, size_t size) {
  fermata::fuzz::tell("understood %u", fermata_fuzz_membership(data, size));
  return 0;
}
