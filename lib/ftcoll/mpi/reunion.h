// SPDX-License-Identifier: Apache-2.0
// The connections of a world after a restart by Fermata, whose checkpoint has saved the process
// without them. What is sent and has not come is sent again by ftcoll.h's part of it; here is how
// the processes find each other: by messages of the MPI, between threads that are in a marked call
// anyway. Each process tells each other one where processes of its host find it. Where the other
// one is on another host, the one of lower rank then listens for all hosts, too, and tells it that.
// A process waits for those alone with whom it is in a call.
//
// Where the program may call MPI from several threads at a time, the thread of Fermata's callbacks
// does it at once. Else a process is found when it makes a marked call: the others' calls wait.
#ifndef FTCOLL_MPI_REUNION_H
#define FTCOLL_MPI_REUNION_H

#include <memory>
#include <mutex>
#include <vector>

#include "addresses.h"
#include "ftcoll_mpi.h"

namespace ftcoll {

extern const char* const kNoAddress;

// Whether this process may be saved by Fermata, and made again.
bool may_be_saved();

// Of one world.
class Reunion {
 public:
  // `comm`: of all its processes, in the order of their ranks, for nothing else.
  Reunion(ftc_world* world, MPI_Comm comm);

  // Before the process is saved.
  void hold();
  // After that: it just continues, or was made again.
  void release();
  void part();
  // Looks for the others if this thread may. Returns false as long as some are not found.
  bool seek_at_once();

 private:
  // What a process says, and hears from each other one, after one parting.
  struct Exchange {
    Place near = {}, wide = {};  // where processes of this host find it, and all others
    std::vector<Place> theirs;   // by rank
    std::vector<MPI_Request> receives;  // by rank
    std::vector<MPI_Request> sends;
  };

  static void seek(void* reunion);
  void step();
  void begin(uint32_t parting);
  Place open(bool for_all_hosts);
  void hear(int other);
  void receive(int other, int phase);
  void send(const Place& place, int other, int phase);

  ftc_world* const world_;
  const MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
  std::mutex stepping_;  // of all below
  bool is_held_ = false;
  uint32_t parting_ = 0;
  int awaited_ = 0;  // processes of which something is still to be heard
  std::unique_ptr<Exchange> exchange_;
  // Of partings that were followed by another one: their messages may still be under way.
  std::vector<std::unique_ptr<Exchange>> given_up_;
};

}  // namespace ftcoll

#endif
