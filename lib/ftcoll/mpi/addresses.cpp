// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace ftcoll {
namespace {

// An address of this host that others may reach: none of the loopback interface, none that is
// valid on one link only.
struct Interface {
  int family = 0;
  std::array<uint8_t, 16> address = {};
  std::array<uint8_t, 16> mask = {};
};

size_t bytes_of(int family) { return family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr); }

// The address in a sockaddr of IP.
const void* address_in(const sockaddr* at) {
  if (at->sa_family == AF_INET) return &reinterpret_cast<const sockaddr_in*>(at)->sin_addr;
  return &reinterpret_cast<const sockaddr_in6*>(at)->sin6_addr;
}

bool is_of_one_link(const Interface& one) {
  const auto& bytes = one.address;
  if (one.family == AF_INET) return bytes[0] == 169 && bytes[1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::optional<Interface> interface_of(const ifaddrs& at) {
  if (!(at.ifa_flags & IFF_UP) || (at.ifa_flags & IFF_LOOPBACK)) return {};
  if (!at.ifa_addr || !at.ifa_netmask) return {};
  Interface one;
  one.family = at.ifa_addr->sa_family;
  if (one.family != AF_INET && one.family != AF_INET6) return {};
  std::memcpy(one.address.data(), address_in(at.ifa_addr), bytes_of(one.family));
  // A mask's family is not always set.
  sockaddr_storage mask = {};
  std::memcpy(&mask, at.ifa_netmask,
              one.family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  mask.ss_family = at.ifa_addr->sa_family;
  std::memcpy(one.mask.data(), address_in(reinterpret_cast<const sockaddr*>(&mask)),
              bytes_of(one.family));
  if (is_of_one_link(one)) return {};
  return one;
}

std::optional<Interface> parse(const std::string& text) {
  Interface one;
  for (const int family : {AF_INET, AF_INET6}) {
    one.family = family;
    if (inet_pton(family, text.c_str(), one.address.data()) == 1) return one;
  }
  return {};
}

bool is_in_network(const Interface& other, const Interface& mine) {
  if (other.family != mine.family) return false;
  for (size_t i = 0; i < bytes_of(mine.family); ++i) {
    if ((other.address[i] ^ mine.address[i]) & mine.mask[i]) return false;
  }
  return true;
}

void append(std::string& to, const std::string& what) {
  if (!to.empty()) to += ',';
  to += what;
}

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* at = all; at; at = at->ifa_next) {
    const auto one = interface_of(*at);
    if (one) found.push_back(*one);
  }
  freeifaddrs(all);
  return found;
}

// Their texts with commas between them, as many as there is room for in a Place.
std::string list(const std::vector<Interface>& all) {
  std::string texts;
  for (const Interface& one : all) {
    char text[INET6_ADDRSTRLEN];
    if (!inet_ntop(one.family, one.address.data(), text, sizeof text)) continue;
    if (texts.size() + 1 + std::strlen(text) >= sizeof Place::addresses) break;
    append(texts, text);
  }
  return texts;
}

// The address to listen at for all interfaces.
const char* anywhere(const std::vector<Interface>& all) {
  for (const Interface& one : all) {
    if (one.family == AF_INET6) return "::";
  }
  return "0.0.0.0";
}

}  // namespace

// FNV-1a of the boot and of the space of networks in it.
uint64_t number_of_this_host() {
  char text[256] = {};
  std::FILE* const boot = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  size_t bytes = boot ? std::fread(text, 1, 64, boot) : 0;
  if (boot) std::fclose(boot);
  const ssize_t more = readlink("/proc/self/ns/net", text + bytes, 64);
  bytes += more > 0 ? static_cast<size_t>(more) : 0;
  if (bytes == 0 && gethostname(text, sizeof text - 1) == 0) bytes = std::strlen(text);
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x100000001b3;
  return hash;
}

Place choose_place(bool for_all_hosts, std::string& listen_at) {
  const char* const chosen = std::getenv("FTCOLL_ADDRESS");
  Place place = {};
  place.host = number_of_this_host();
  place.reach = chosen ? kChosen : for_all_hosts ? kEverywhere : kHost;
  listen_at = chosen ? chosen : "127.0.0.1";
  std::string told = listen_at;
  if (place.reach == kEverywhere) {
    const std::vector<Interface> all = interfaces();
    listen_at = anywhere(all);
    told = list(all);
  }
  std::strncpy(place.addresses, told.c_str(), sizeof place.addresses - 1);
  return place;
}

int32_t port_in(const char* address) {
  const char* const colon = std::strrchr(address, ':');
  return colon ? static_cast<int32_t>(std::strtol(colon + 1, nullptr, 10)) : 0;
}

std::string ways_to(const Place& place, uint64_t my_host) {
  const std::string port = ":" + std::to_string(place.port);
  if (place.port == 0) return "127.0.0.1:1";
  if (place.host == my_host && place.reach != kChosen) return "127.0.0.1" + port;
  const std::vector<Interface> mine = interfaces();
  std::string near, far, own;
  std::string_view rest = place.addresses;
  while (!rest.empty()) {
    const std::string text(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    const auto other = parse(text);
    if (!other) continue;
    bool is_near = false, is_mine = false;
    for (const Interface& one : mine) {
      is_near |= is_in_network(*other, one);
      is_mine |= other->family == one.family && other->address == one.address;
    }
    std::string& those = is_mine ? own : is_near ? near : far;
    append(those, (other->family == AF_INET6 ? "[" + text + "]" : text) + port);
  }
  for (const std::string& more : {far, own}) {
    if (!more.empty()) append(near, more);
  }
  return near;
}

}  // namespace ftcoll
