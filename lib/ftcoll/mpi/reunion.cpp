// SPDX-License-Identifier: Apache-2.0
#include "reunion.h"

#include <fermata.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ftcoll {
namespace {

enum Phase { kNothing, kHosts, kDoors, kMeeting };

constexpr int kSeekings = 2000;  // a millisecond each
constexpr int kPhases = 2, kTags = 16384;  // every MPI has twice as many

// Messages of one parting are no others'.
int tag(uint32_t parting, int phase) {
  return static_cast<int>(parting % kTags) * kPhases + phase - kHosts;
}

}  // namespace

bool may_be_saved() { return fermata_version() != nullptr; }

Reunion::Reunion(ftc_world* world, MPI_Comm comm) : world_(world), comm_(comm) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  ftc_seek_by(world, seek, this);
}

void Reunion::hold() {
  ftc_hold(world_);
  std::vector<int> sockets(static_cast<size_t>(ftc_sockets(world_, nullptr, 0)));
  const int32_t now = ftc_sockets(world_, sockets.data(), static_cast<int32_t>(sockets.size()));
  if (static_cast<size_t>(now) < sockets.size()) sockets.resize(static_cast<size_t>(now));
  // One that it does not hold for is refused by name, and the checkpoint fails.
  for (const int socket : sockets) fermata_reconnects(socket);
}

void Reunion::release() { ftc_release(world_); }

void Reunion::part() { ftc_part(world_); }

void Reunion::seek_at_once() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  for (int i = 0; level == MPI_THREAD_MULTIPLE && i < kSeekings; ++i) {
    seek(this);
    {
      const std::lock_guard guard(stepping_);
      if (parting_ == ftc_partings(world_) && phase_ == kMeeting) return;
    }
    usleep(1000);
  }
}

void Reunion::seek(void* reunion) {
  Reunion& self = *static_cast<Reunion*>(reunion);
  const std::unique_lock guard(self.stepping_, std::try_to_lock);
  if (guard.owns_lock()) self.step();
}

void Reunion::step() {
  const uint32_t parting = ftc_partings(world_);
  if (parting != parting_) begin(parting);
  if (phase_ == kHosts && has_come()) open();
  if (phase_ == kDoors && has_come()) meet();
}

void Reunion::begin(uint32_t parting) {
  if (exchange_) {
    for (size_t i = 0; i < exchange_->receives; ++i) {
      MPI_Request& request = exchange_->requests[i];
      if (request == MPI_REQUEST_NULL) continue;
      PMPI_Cancel(&request);
      PMPI_Request_free(&request);
    }
    given_up_.push_back(std::move(exchange_));
  }
  parting_ = parting;
  mine_ = {};
  mine_.host = number_of_this_host();
  exchange(kHosts);
}

void Reunion::exchange(int phase) {
  phase_ = phase;
  const auto count = static_cast<size_t>(size_);
  exchange_ = std::make_unique<Exchange>(
      Exchange{std::vector<Place>(count), mine_, std::vector<MPI_Request>(), 0});
  exchange_->places[static_cast<size_t>(rank_)] = mine_;
  for (const bool receives : {true, false}) {
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      const int what = tag(parting_, phase);
      if (receives) {
        PMPI_Irecv(&exchange_->places[static_cast<size_t>(other)], sizeof(Place), MPI_BYTE, other,
                   what, comm_, &request);
      } else {
        PMPI_Isend(&exchange_->mine, sizeof(Place), MPI_BYTE, other, what, comm_, &request);
      }
      exchange_->requests.push_back(request);
    }
    if (receives) exchange_->receives = exchange_->requests.size();
  }
}

bool Reunion::has_come() {
  int is_done = 0;
  std::vector<MPI_Request>& requests = exchange_->requests;
  PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
  return is_done;
}

void Reunion::open() {
  bool is_only_host = true;
  for (const Place& place : exchange_->places) is_only_host &= place.host == mine_.host;
  const std::string at = choose_address(is_only_host, interfaces(), mine_);
  char text[64] = {};
  if (ftc_open_again(world_, parting_, at.c_str(), text, sizeof text) == FTC_OK) {
    mine_.port = static_cast<int32_t>(std::strtol(std::strrchr(text, ':') + 1, nullptr, 10));
  } else if (ftc_partings(world_) == parting_) {
    std::fprintf(stderr, "ftcoll: listening after a restart: %s\n", ftc_error());
  }
  exchange(kDoors);
}

// Who does not listen is nowhere: the others do not reach it, and it counts as dead.
void Reunion::meet() {
  const std::vector<Interface> mine = interfaces();
  std::vector<std::string> ways;
  std::vector<const char*> addresses;
  for (const Place& place : exchange_->places) {
    ways.push_back(place.port ? ways_to(place, mine_.host, mine) : "127.0.0.1:1");
  }
  for (const std::string& way : ways) addresses.push_back(way.c_str());
  phase_ = kMeeting;
  exchange_.reset();
  ftc_meet_again(world_, parting_, size_, addresses.data());
}

}  // namespace ftcoll
