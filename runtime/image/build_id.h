// SPDX-License-Identifier: Apache-2.0
// The identity of a program file: its GNU build-id. The same id means the same bytes, on any node.
#pragma once

#include "base/text.h"
#include "base/types.h"

namespace fermata::image {

struct BuildId {
  u8 bytes[20];  // a longer one is cut
  u32 size;  // 0: the file has no build-id
};

/// The build-id of an ELF file, or one of size zero. Blocks: reads the file.
BuildId build_id(int fd);

/// Appends the id in hexadecimal.
void print_build_id(const BuildId& id, Text<48>& out);

}  // namespace fermata::image
