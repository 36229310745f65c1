// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace ftcoll {
namespace {

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

}  // namespace

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

// FNV-1a of the boot and of the space of networks in it.
int32_t number_of_this_host() {
  char text[256] = {};
  std::FILE* const boot = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  size_t bytes = boot ? std::fread(text, 1, 64, boot) : 0;
  if (boot) std::fclose(boot);
  const ssize_t more = readlink("/proc/self/ns/net", text + bytes, 64);
  bytes += more > 0 ? static_cast<size_t>(more) : 0;
  uint32_t hash = 0x811c9dc5;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x01000193;
  return static_cast<int32_t>(hash);
}

std::string choose_address(bool is_only_host, const std::vector<Interface>& mine, Place& place) {
  const char* const chosen = std::getenv("FTCOLL_ADDRESS");
  place.is_anywhere = !chosen && !is_only_host;
  const std::string at = chosen ? chosen : "127.0.0.1";
  const std::string told = place.is_anywhere ? list(mine) : at;
  std::strncpy(place.addresses, told.c_str(), sizeof place.addresses - 1);
  return place.is_anywhere ? anywhere(mine) : at;
}

const char* anywhere(const std::vector<Interface>& all) {
  for (const Interface& one : all) {
    if (one.family == AF_INET6) return "::";
  }
  return "0.0.0.0";
}

std::string ways_to(const Place& place, int32_t my_host, const std::vector<Interface>& mine) {
  const std::string port = ":" + std::to_string(place.port);
  const bool is_here = place.host == my_host;
  if (is_here && place.is_anywhere) return "127.0.0.1" + port;
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
