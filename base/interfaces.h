// Which of the machine's network addresses are told to other machines: WEFT_IFNAME, in the grammar of NCCL_SOCKET_IFNAME.
//
//   WEFT_ASSIGN_OR_RETURN(const std::string address, AddressForOthers());
//   WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> rails, RailsForOthers());
//
//   "eth,ib"        // interfaces whose names begin with eth or ib
//   "=eth0,eth1"    // these two
//   "^docker,veth"  // none whose name begins with these; "^=eth0": any but this one
//   ""              // as with no setting: any, those whose names begin with docker last
//
// Of several the first that the system lists, IPv4 before IPv6, is the machine's address; all that are named, by the first two rules, are its
// rails, in the same order, one address of each. Loopback is taken only if it is named. Interfaces that are down, and
// link-local addresses, which mean nothing on another machine, do not count.
// Thread-safety: any thread; ChooseInterface and ChooseRails are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// An interface that has several addresses is there several times.
struct NetworkInterface {
  std::string name;     // "eth0"
  std::string address;  // numeric
  bool loopback = false;
  bool ipv6 = false;
};

// Those of this process's network namespace that are up; none if the system does not say.
std::vector<NetworkInterface> NetworkInterfaces();

// INVALID_ARGUMENT, with what there is, if `wanted` has a name and fits none of them. One with no address if nothing was wanted
// and there is only loopback.
absl::StatusOr<NetworkInterface> ChooseInterface(std::string_view wanted,
                                                 const std::vector<NetworkInterface>& present);

// So many, of those that are named.
constexpr size_t kRailsMax = 8;

// ChooseInterface's, and behind it the others that `wanted` names; none where that has no address. Errors: its.
absl::StatusOr<std::vector<NetworkInterface>> ChooseRails(
    std::string_view wanted, const std::vector<NetworkInterface>& present);

// The numeric address at which others reach this machine, by WEFT_IFNAME; the choice is logged. "" if there is only loopback
// and nothing was wanted. Errors: ChooseInterface's.
absl::StatusOr<std::string> AddressForOthers();

// The numeric addresses, one of each rail; AddressForOthers() is the first. None if there is only loopback and nothing was wanted.
absl::StatusOr<std::vector<std::string>> RailsForOthers();

}  // namespace weft
