// SPDX-License-Identifier: Apache-2.0
// Where the processes of a communicator listen, and how each of them reaches the others.
//
// On one host all listen at its loopback interface. With several hosts each process listens at all
// interfaces and names their addresses; which of them leads to it, who dials finds out by trying.
#ifndef FTCOLL_MPI_ADDRESSES_H
#define FTCOLL_MPI_ADDRESSES_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftcoll {

// An address of this host that others may reach: none of the loopback interface, none that is
// valid on one link only.
struct Interface {
  int family = 0;
  std::array<uint8_t, 16> address = {};
  std::array<uint8_t, 16> mask = {};
};

// Where a process can be found. As it goes over the MPI.
struct Place {
  int32_t host;         // a number that all processes of the host have, and no others
  int32_t port;         // 0: it does not listen
  int32_t is_anywhere;  // it listens at all interfaces
  char addresses[500];  // with commas between them, a zero at the end
};

std::vector<Interface> interfaces();

// Their texts with commas between them, as many as there is room for in a Place.
std::string list(const std::vector<Interface>& all);

// A number that all processes that reach each other by the loopback interface have, and no others.
int32_t number_of_this_host();

// The address to listen at, and in `place` what the others are told of it.
std::string choose_address(bool is_only_host, const std::vector<Interface>& mine, Place& place);

// The address to listen at for all interfaces.
const char* anywhere(const std::vector<Interface>& all);

// What a process with these interfaces dials to reach another one, as ftc_meet() takes it. First
// those in a network that both are in; last those that this host has too: of bridges of containers
// they lead back here, but what the MPI calls two hosts may be one.
std::string ways_to(const Place& place, int32_t my_host, const std::vector<Interface>& mine);

}  // namespace ftcoll

#endif
