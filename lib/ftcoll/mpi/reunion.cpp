// SPDX-License-Identifier: Apache-2.0
#include "reunion.h"

#include <cstdio>
#include <string>

#include "fermata.h"

namespace ftcoll {
namespace {

enum Phase { kNear, kWide, kPhases };

constexpr uint32_t kTags = 32768 / kPhases;  // every MPI has as many

// Messages of one parting are no others'.
int tag(uint32_t parting, int phase) {
  return static_cast<int>(parting % kTags) * kPhases + phase;
}

// Whether processes of this host find it there.
bool is_found_from(uint64_t host, const Place& place) {
  return place.host == host || place.reach != kHost;
}

}  // namespace

const char* const kNoAddress =
    "is not set, and this host has no address that others can reach";

bool may_be_saved() { return fermata_version() != nullptr; }

Reunion::Reunion(ftc_world* world, MPI_Comm comm) : world_(world), comm_(comm) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  // Who dies is noticed by the connections.
  PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  ftc_seek_by(world, seek, this);
}

void Reunion::hold() {
  const std::lock_guard guard(stepping_);
  is_held_ = true;
  ftc_hold(world_);
  // While connections are held none comes into being; one may break.
  std::vector<int> sockets(static_cast<size_t>(ftc_sockets(world_, nullptr, 0)));
  const int32_t left = ftc_sockets(world_, sockets.data(), static_cast<int32_t>(sockets.size()));
  sockets.resize(static_cast<size_t>(left));
  // One for which that fails is refused by name, and the checkpoint fails.
  for (const int socket : sockets) fermata_reconnects(socket);
}

void Reunion::release() {
  const std::lock_guard guard(stepping_);
  is_held_ = false;
  ftc_release(world_);
}

void Reunion::part() {
  const std::lock_guard guard(stepping_);
  is_held_ = false;
  ftc_part(world_);
}

bool Reunion::seek_at_once() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) return true;
  const std::lock_guard guard(stepping_);
  step();
  return awaited_ == 0;
}

void Reunion::seek(void* reunion) {
  Reunion& self = *static_cast<Reunion*>(reunion);
  const std::unique_lock guard(self.stepping_, std::try_to_lock);
  if (guard.owns_lock()) self.step();
}

void Reunion::step() {
  if (is_held_) return;
  const uint32_t parting = ftc_partings(world_);
  if (parting != parting_) begin(parting);
  if (!exchange_) return;
  for (int other = 0; awaited_ > 0 && other < size_; ++other) {
    MPI_Request& request = exchange_->receives[static_cast<size_t>(other)];
    int has_come = 0;
    if (request == MPI_REQUEST_NULL) continue;
    PMPI_Test(&request, &has_come, MPI_STATUS_IGNORE);
    if (has_come) hear(other);
  }
  int are_sent = 0;
  std::vector<MPI_Request>& sends = exchange_->sends;
  PMPI_Testall(static_cast<int>(sends.size()), sends.data(), &are_sent, MPI_STATUSES_IGNORE);
  if (are_sent) sends.clear();
}

void Reunion::begin(uint32_t parting) {
  if (exchange_) {
    for (MPI_Request& request : exchange_->receives) {
      if (request == MPI_REQUEST_NULL) continue;
      PMPI_Cancel(&request);
      PMPI_Request_free(&request);
    }
    given_up_.push_back(std::move(exchange_));
  }
  const auto count = static_cast<size_t>(size_);
  exchange_ = std::make_unique<Exchange>();
  exchange_->theirs.resize(count);
  exchange_->receives.resize(count, MPI_REQUEST_NULL);
  parting_ = parting;
  awaited_ = size_ - 1;
  exchange_->near = open(false);
  for (int other = 0; other < size_; ++other) {
    if (other != rank_) receive(other, kNear);
  }
  for (int other = 0; other < size_; ++other) {
    if (other != rank_) send(exchange_->near, other, kNear);
  }
}

// Who listens nowhere says so: it counts as dead with those who would dial it.
Place Reunion::open(bool for_all_hosts) {
  std::string at;
  Place place = choose_place(for_all_hosts, at);
  char text[64] = {};
  if (!place.addresses[0]) {
    std::fprintf(stderr, "ftcoll: FTCOLL_ADDRESS: %s\n", kNoAddress);
  } else if (ftc_open_again(world_, parting_, at.c_str(), text, sizeof text) == FTC_OK) {
    place.port = port_in(text);
  } else if (ftc_partings(world_) == parting_) {
    std::fprintf(stderr, "ftcoll: listening after a restart: %s\n", ftc_error());
  }
  return place;
}

void Reunion::hear(int other) {
  const Place& theirs = exchange_->theirs[static_cast<size_t>(other)];
  const Place& mine = exchange_->near;
  if (other > rank_ && !is_found_from(theirs.host, mine)) {
    Place& wide = exchange_->wide;
    if (!wide.host) wide = open(true);
    send(wide, other, kWide);
  } else if (other < rank_ && !is_found_from(mine.host, theirs)) {
    receive(other, kWide);
    return;
  } else if (other < rank_) {
    ftc_meet_again(world_, parting_, other, ways_to(theirs, mine.host).c_str());
  }
  --awaited_;
}

void Reunion::receive(int other, int phase) {
  const auto at = static_cast<size_t>(other);
  PMPI_Irecv(&exchange_->theirs[at], sizeof(Place), MPI_BYTE, other, tag(parting_, phase), comm_,
             &exchange_->receives[at]);
}

void Reunion::send(const Place& place, int other, int phase) {
  MPI_Request& request = exchange_->sends.emplace_back(MPI_REQUEST_NULL);
  PMPI_Isend(&place, sizeof place, MPI_BYTE, other, tag(parting_, phase), comm_, &request);
}

}  // namespace ftcoll
