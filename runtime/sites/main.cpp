// SPDX-License-Identifier: Apache-2.0
// sites [--cache DIR] [--output FD] [--verbose] [--print] [--quiet] FILE...
//
// Finds the FS prefixes of each FILE. With --cache keeps the result in DIR, where the launcher
// looks for it by build-id, and prints nothing. With --output, which the launcher uses, writes the
// list to that descriptor, and nothing else to stdout, which is then that of the job it runs in;
// a cache that cannot be used does not matter then. Without both, or with --verbose, prints a line
// per file. Exit status: 0 all accepted, 3 some refused, 1 a file or the cache could not be read or
// written, 2 usage. 3 wins over 1: a refused library is the news.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sites/store.h"

namespace fermata::sites {
namespace {

struct Options {
  std::string cache;
  int directory = -1;  // of the cache; -1 = there is none
  int output = -1;
  bool print = false;
  bool verbose = false;
  bool quiet = false;
  std::vector<const char*> files;
};

bool parse(int argc, char** argv, Options* out) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--cache") == 0 && i + 1 < argc) out->cache = argv[++i];
    else if (strcmp(argv[i], "--output") == 0 && i + 1 < argc) out->output = atoi(argv[++i]);
    else if (strcmp(argv[i], "--print") == 0) out->print = true;
    else if (strcmp(argv[i], "--verbose") == 0) out->verbose = true;
    else if (strcmp(argv[i], "--quiet") == 0) out->quiet = true;
    else if (argv[i][0] == '-') return false;
    else out->files.push_back(argv[i]);
  }
  const bool is_kept = !out->cache.empty() || out->output >= 0;
  if (is_kept && !out->verbose && !out->print) out->quiet = true;
  return !out->files.empty();
}

/// Handles one file. Returns its exit status: 0, 1 or 3.
int handle(const char* path, const Options& options) {
  ElfFile file;
  if (const std::string error = file.open(path); !error.empty()) {
    fprintf(stderr, "sites: %s: %s\n", path, error.c_str());
    return 1;
  }
  const std::vector<u8> id = identity(file);
  Findings findings;
  const bool cached = options.directory >= 0 && !options.print &&
                      load(options.directory, id, file.bytes(), &findings);
  if (!cached) {
    findings = find_sites(file);
    if (!findings.refused.empty()) findings.offsets.clear();
  }
  const std::string list = list_of(id, file.bytes(), findings);
  if (!cached && options.directory >= 0) {
    const std::string error = store(options.directory, id, list);
    if (!error.empty() && options.output < 0) {
      fprintf(stderr, "sites: %s/%s\n", options.cache.c_str(), error.c_str());
      return 1;
    }
  }
  if (options.output >= 0) return write_all(options.output, list) ? 0 : 1;
  if (!findings.refused.empty()) {
    take_out_control(findings.refused.data());
    fprintf(stderr, "sites: %s: refused: %s\n", path, findings.refused.c_str());
    return 3;
  }
  if (!options.quiet)
    printf("%7zu sites  %s  %s%s\n", findings.offsets.size(), hex(id).c_str(), path,
           cached ? "  (cached)" : "");
  if (options.print) {
    printf("        %llu functions, %llu gaps, %llu bytes decoded\n",
           static_cast<unsigned long long>(findings.functions),
           static_cast<unsigned long long>(findings.gaps),
           static_cast<unsigned long long>(findings.decoded));
    for (const u64 offset : findings.offsets)
      printf("        0x%llx\n", static_cast<unsigned long long>(offset));
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    fprintf(stderr, "usage: sites [--cache DIR] [--output FD] [--verbose] [--print] [--quiet] "
                    "FILE...\n");
    return 2;
  }
  if (!options.cache.empty()) {
    const std::string error = open_directory(options.cache, &options.directory);
    if (!error.empty() && options.output < 0) {
      fprintf(stderr, "sites: %s\n", error.c_str());
      return 1;
    }
  }
  int status = 0;
  for (const char* path : options.files) {
    const int one = handle(path, options);
    if (one > status) status = one;
  }
  return status;
}

}  // namespace
}  // namespace fermata::sites

int main(int argc, char** argv) { return fermata::sites::run(argc, argv); }
