// SPDX-License-Identifier: Apache-2.0
// C++ with its own static libstdc++ and libgcc: containers, exceptions (whose unwinder looks up
// loaded objects), thread-local objects with destructors, and a static initialised on first use.
#include "../check.h"

#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

thread_local std::string where = "nowhere";

struct Ledger {
  std::map<std::string, std::vector<int>> rows;
  void add(int step) {
    std::ostringstream name;
    name << "row " << step % 7;
    rows[name.str()].push_back(step);
    if (step % 3 == 0) throw std::runtime_error(name.str());
  }
};

Ledger &ledger() {
  static Ledger instance;
  return instance;
}

}  // namespace

int main(int argc, char **argv) {
  start(&argc, &argv);
  const options o = parse_options(argc, argv, 12, 0);
  auto kept = std::make_unique<std::vector<std::string>>();
  where = "rank " + std::to_string(rank);
  for (int step = 1; step <= o.steps; step++) {
    try {
      ledger().add(step);
    } catch (const std::exception &error) {
      kept->push_back(error.what());
    }
    int sizes[2] = {int(kept->size()), int(ledger().rows.size())}, sums[2] = {0, 0};
    MPI_Allreduce(sizes, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sums[0] == sizes[0] * ranks && sums[1] == sizes[1] * ranks);
    CHECK(where == "rank " + std::to_string(rank));
    mix(sums, sizeof sums);
    report_step(step, o.step_ms);
  }
  for (const auto &[name, row] : ledger().rows) {
    mix(name.data(), name.size());
    mix(row.data(), row.size() * sizeof(int));
  }
  for (const std::string &name : *kept) mix(name.data(), name.size());
  finish();
  return 0;
}
