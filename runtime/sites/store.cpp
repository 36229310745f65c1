// SPDX-License-Identifier: Apache-2.0
// Reading and writing cache files. A file that fails any check counts as absent and is made again.
#include "sites/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/sha1.h"

namespace fermata::sites {
namespace {

constexpr char kMagic[8] = {'F', 'S', 'I', 'T', 'E', 'S', '0', '1'};

constexpr std::array<u32, 256> make_crc_table() {
  std::array<u32, 256> table{};
  for (u32 i = 0; i < 256; i++) {
    u32 value = i;
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<u32, 256> kCrcTable = make_crc_table();

std::string name_of(const std::vector<u8>& id) { return hex(id) + ".sites"; }

/// Whether what was opened is of this type, and nobody but root and the user may have written it.
bool is_ours(int fd, mode_t type) {
  struct stat info;
  if (fstat(fd, &info) != 0 || (info.st_mode & S_IFMT) != type) return false;
  return !(info.st_mode & (S_IWGRP | S_IWOTH)) && (info.st_uid == 0 || info.st_uid == geteuid());
}

}  // namespace

u32 crc32c(const void* data, u64 bytes) {
  const u8* p = static_cast<const u8*>(data);
  u32 crc = ~0u;
  while (bytes--) crc = crc >> 8 ^ kCrcTable[(crc ^ *p++) & 0xff];
  return ~crc;
}

std::vector<u8> identity(const ElfFile& file) {
  if (!file.build_id().empty()) return file.build_id();
  const Sha1 content = sha1(file.data(), file.bytes());
  return {content.bytes, content.bytes + sizeof content.bytes};
}

std::string hex(const std::vector<u8>& bytes) {
  std::string out;
  for (const u8 byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

std::string list_of(const std::vector<u8>& id, u64 file_bytes, const Findings& findings) {
  SitesHeader head{};
  memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = 1;
  head.status = findings.refused.empty() ? 0 : 1;
  head.count = findings.offsets.size();
  head.file_bytes = file_bytes;
  memcpy(head.build_id, id.data(), id.size());
  head.build_id_bytes = u32(id.size());
  head.crc32c = crc32c(findings.offsets.data(), head.count * 8);
  head.revision = kFinderRevision;
  std::string list(reinterpret_cast<const char*>(&head), sizeof head);
  list.append(reinterpret_cast<const char*>(findings.offsets.data()), head.count * 8);
  if (head.status) list.append(findings.refused.c_str(), findings.refused.size() + 1);
  return list;
}

bool write_all(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = write(fd, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += size_t(put);
  }
  return true;
}

std::string open_directory(const std::string& path, int* fd) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return "cannot create " + path + ": " + strerror(errno);
  *fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*fd < 0) return "cannot open " + path + ": " + strerror(errno);
  if (is_ours(*fd, S_IFDIR)) return "";
  close(*fd);
  *fd = -1;
  return "others may write to " + path;
}

std::string store(int directory, const std::vector<u8>& id, const std::string& list) {
  // Several ranks may find the same library missing at once: each writes a file of its own, and the
  // renames put equal contents under the final name.
  const std::string name = name_of(id);
  const std::string aside = name + "." + std::to_string(getpid()) + ".tmp";
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  (void)unlinkat(directory, aside.c_str(), 0);  // of a process of this number that was killed
  const int fd = openat(directory, aside.c_str(), kNew, 0644);
  if (fd < 0) return "cannot create " + aside + ": " + strerror(errno);
  bool good = write_all(fd, list);
  good = close(fd) == 0 && good;
  if (good && renameat(directory, aside.c_str(), directory, name.c_str()) == 0) return "";
  const std::string error = "cannot write " + name + ": " + strerror(errno);
  (void)unlinkat(directory, aside.c_str(), 0);
  return error;
}

bool load(int directory, const std::vector<u8>& id, u64 file_bytes, Findings* findings) {
  const int fd = openat(directory, name_of(id).c_str(),
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  FILE* in = is_ours(fd, S_IFREG) ? fdopen(fd, "rb") : nullptr;
  if (!in) {
    close(fd);
    return false;
  }
  SitesHeader head;
  bool good = fread(&head, sizeof head, 1, in) == 1 &&
              memcmp(head.magic, kMagic, sizeof kMagic) == 0 && head.version == 1 &&
              head.revision == kFinderRevision && head.file_bytes == file_bytes &&
              head.build_id_bytes == id.size() &&
              memcmp(head.build_id, id.data(), id.size()) == 0 && head.count <= file_bytes;
  if (good) {
    findings->offsets.resize(head.count);
    if (head.count) good = fread(findings->offsets.data(), 8, head.count, in) == head.count;
    good = good && crc32c(findings->offsets.data(), head.count * 8) == head.crc32c;
    char reason[512] = {};
    if (head.status && fread(reason, 1, sizeof reason - 1, in) > 0) findings->refused = reason;
    good = good && (head.status == 0) == findings->refused.empty();
  }
  fclose(in);
  if (!good) *findings = Findings{};
  return good;
}

}  // namespace fermata::sites
