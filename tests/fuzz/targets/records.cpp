// SPDX-License-Identifier: Apache-2.0
// manifest.json and job.json. Input: the text; both readers get it, and once more with the format
// and the checksum of a manifest as they should be (kOtherVersion).
#include "bytes.h"

enum Outcome : fermata::u32 { kNeither, kManifest, kJob };

extern "C" Outcome fermata_fuzz_records(const fermata::u8* text, size_t bytes, fermata::u32 other);

extern "C" int LLVMFuzzerTestOneInput(const fermata::u8* data, size_t size) {
  const char* const outcomes[] = {"neither is whole", "a whole manifest", "a whole job record"};
  const Outcome outcome = fermata_fuzz_records(data, size, fermata::fuzz::kOtherVersion);
  fermata::fuzz::tell("%s", outcomes[outcome]);
  return 0;
}
