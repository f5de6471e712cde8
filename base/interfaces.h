// Which of the machine's network addresses are told to other machines: by WEFT_IFNAME, in the grammar of NCCL_SOCKET_IFNAME; where it is
// not set by GLOO_SOCKET_IFNAME (whole names), then NCCL_SOCKET_IFNAME; else automatically.
//
//   WEFT_ASSIGN_OR_RETURN(const OwnAddresses own, AddressesForOthers());
//   own.rails.front(), own.choice                   // "10.0.0.7", "interface eth0, chosen automatically"
//
//   "eth,ib"        // interfaces whose names begin with eth or ib
//   "=eth0,eth1"    // these two
//   "^docker,veth"  // none whose name begins with these; "^=eth0": any but this one
//   ""              // as with no setting: any
//
// Of several that fit the first that the system lists, IPv4 before IPv6, is the machine's address. Those without carrier (a cable that is
// out) come last; where none is named, so do bridges and tunnels, which seldom lead to other machines of a job. All that are named, by the
// first two rules, are the machine's rails, in the same order, one address of each. Loopback and link-local addresses are taken only if
// they are named: "fe80::1%eth0" has the interface in it, which every machine replaces by its own (OnOwnLink). Interfaces that are
// down do not count.
// Thread-safety: any thread; all but NetworkInterfaces and what asks the environment are pure.
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
  std::string address;  // numeric; of a link-local one with the interface, "fe80::1%eth0"
  bool loopback = false;
  bool ipv6 = false;
  bool link_local = false;
  bool carrier = true;  // something is at the other end
  bool relay = false;   // a bridge, or a tunnel
};

// Those of this process's network namespace that are up; none if the system does not say.
std::vector<NetworkInterface> NetworkInterfaces();

// What somebody has said about them.
struct InterfaceWish {
  std::string variable;  // "WEFT_IFNAME"; "": nobody has
  std::string rule;
};

// Of this process's environment.
InterfaceWish WishedInterfaces();

// INVALID_ARGUMENT, with what there is, if `wish` has a name and fits none of them. One with no address if nothing was wanted
// and there is only loopback.
absl::StatusOr<NetworkInterface> ChooseInterface(const InterfaceWish& wish,
                                                 const std::vector<NetworkInterface>& present);

// So many, of those that are named.
constexpr size_t kRailsMax = 8;

// ChooseInterface's, and behind it the others that `wish` names; none where that has no address. Errors: its.
absl::StatusOr<std::vector<NetworkInterface>> ChooseRails(
    const InterfaceWish& wish, const std::vector<NetworkInterface>& present);

// At which others reach this machine.
struct OwnAddresses {
  std::vector<std::string>
      rails;           // numeric, the first is the machine's address; none: there is only loopback
  std::string choice;  // "interface eth0, by WEFT_IFNAME=eth", for messages
};

// Of this machine; the choice is logged. Errors: ChooseInterface's.
absl::StatusOr<OwnAddresses> AddressesForOthers();

// Where both are link-local, the address `host` on the link of this machine's own address: with its interface. Else `host`.
std::string OnOwnLink(const std::string& host, const std::string& own);

}  // namespace weft
