// SPDX-License-Identifier: Apache-2.0
// manifest.json and job.json. Input: the text; both readers get it.
#include "bytes.h"

extern "C" void fermata_fuzz_records(const fermata::u8* text, size_t bytes);

extern "C" int LLVMFuzzerTestOneInput(const fermata::u8* data, size_t size) {
  fermata_fuzz_records(data, size);
  return 0;
}
