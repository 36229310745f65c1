// SPDX-License-Identifier: Apache-2.0
// Where the processes of a communicator listen, and how each of them reaches the others.
//
// On one host all listen at its loopback interface. For other hosts a process listens at all
// interfaces and names their addresses; which of them leads to it, who dials finds out by trying.
#ifndef FTCOLL_MPI_ADDRESSES_H
#define FTCOLL_MPI_ADDRESSES_H

#include <cstdint>
#include <string>

namespace ftcoll {

enum Reach : int32_t {
  kHost,        // who listens is found by processes of its host, at the loopback interface
  kEverywhere,  // at all interfaces
  kChosen,      // at the address that FTCOLL_ADDRESS names
};

// Where a process can be found. As it goes over the MPI.
struct Place {
  uint64_t host;  // number_of_this_host() there
  Reach reach;
  int32_t port;         // 0: it does not listen
  char addresses[496];  // with commas between them, a zero at the end
};

// A number that all processes that reach each other by the loopback interface have, and no others.
uint64_t number_of_this_host();

// Where a process listens that others are to find from all hosts, or from its own; FTCOLL_ADDRESS
// goes before both. `listen_at`: the address to listen at. The place has no port yet, and no
// addresses if this host has none.
Place choose_place(bool for_all_hosts, std::string& listen_at);

// The port in "IP:PORT".
int32_t port_in(const char* address);

// What a process of this host dials to reach another one, as ftc_meet() takes it. First those in a
// network that both are in; last those that this host has too: of bridges of containers they lead
// back here, but what counts as two hosts may be one. Where nobody listens: an address like that.
std::string ways_to(const Place& place, uint64_t my_host);

}  // namespace ftcoll

#endif
