// SPDX-License-Identifier: Apache-2.0
// A cache entry of the sites tool, as the launcher reads it. Input: the entry's file; the checksum
// is made to fit if the first byte, which is no part of it, is odd. Magic and version become those
// of today (kOtherVersion).
#include <string.h>
#include <sys/stat.h>

#include <vector>

#include "base/crc32c.h"
#include "bytes.h"
#include "launcher/patch/site_cache.cpp"

using namespace fermata;
using namespace fermata::launch;

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static char directory[] = "/tmp/fermata-fuzz-cache-XXXXXX", path[64];
  if (!path[0]) {
    REQUIRE(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/00.sites", directory);
    atexit([] { unlink(path), rmdir(directory); });
  }
  if (size == 0) return 0;
  std::vector<u8> entry(data + 1, data + size);
  CacheHeader header;
  if (entry.size() >= sizeof header) {
    memcpy(&header, entry.data(), sizeof header);
    if (header.version != fuzz::kOtherVersion) {
      memcpy(header.magic, kCacheMagic, sizeof header.magic);
      header.version = kCacheVersion;
      header.revision = kFinderRevision;
    }
    const u64 offsets = (entry.size() - sizeof header) / 8;
    if ((data[0] & 1) && header.count <= offsets)
      header.crc = crc32c(entry.data() + sizeof header, header.count * 8);
    memcpy(entry.data(), &header, sizeof header);
  }
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd >= 0 && write(fd, entry.data(), entry.size()) == ssize_t(entry.size()));
  close(fd);
  image::BuildId key{};
  key.size = 1;
  SiteFile sites;
  const i32 error = open_sites(key, directory, sites);
  const u64 end = sites.mapped + entry.size();
  if (error == sys::kEperm) {
    const u64 reason = sys::arg(sites.reason);
    REQUIRE(reason < end && memchr(sites.reason, 0, end - reason));
  }
  if (error == 0)
    for (u64 i = 0; i < sites.count; i++) REQUIRE(sys::arg(sites.offsets + i + 1) <= end);
  if (error == 0)
    fuzz::tell("accepted: %lu", sites.count);
  else
    fuzz::tell("%s", error == sys::kEperm ? "accepted: a reason" : "damaged");
  if (sites.mapped) munmap(reinterpret_cast<void*>(sites.mapped), entry.size());
  return 0;
}
