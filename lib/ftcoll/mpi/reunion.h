// SPDX-License-Identifier: Apache-2.0
// The connections of a world after a restart by Fermata, whose checkpoint has saved the process
// without them. What is sent and has not come is sent again by ftcoll.h's part of it; here is how
// the processes find each other: by messages of the MPI, between threads that are in a marked call
// anyway. First all learn who is on which host, then where each listens.
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
  // Has the others looked for, for a moment, if this thread may.
  void seek_at_once();

 private:
  // One message of each process to each other one.
  struct Exchange {
    std::vector<Place> places;  // by rank
    Place mine;                 // sent from here
    std::vector<MPI_Request> requests;
    size_t receives;  // so many of them, first
  };

  static void seek(void* reunion);
  void step();
  void begin(uint32_t parting);
  void exchange(int phase);
  bool has_come();
  void open();
  void meet();

  ftc_world* const world_;
  const MPI_Comm comm_;
  int rank_ = 0, size_ = 0;
  std::mutex stepping_;  // of all below
  uint32_t parting_ = 0;
  int phase_ = 0;
  std::unique_ptr<Exchange> exchange_;
  // Of partings that were followed by another one: their messages may still be under way.
  std::vector<std::unique_ptr<Exchange>> given_up_;
  Place mine_ = {};
};

}  // namespace ftcoll

#endif
