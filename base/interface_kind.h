// What a network interface is, as the kernel says without privileges and in any network namespace: /sys shows those of the namespace in
// which it was mounted.
//
//   InterfaceKinds kinds(*addresses);               // of getifaddrs()
//   kinds.IsRelay("docker0")
//
// Thread-safety: one thread. Owns a descriptor.
#pragma once

#include <map>
#include <string>

#include <ifaddrs.h>

#include "base/fd.h"

namespace weft {

class InterfaceKinds {
 public:
  explicit InterfaceKinds(const ifaddrs& first);

  // A bridge, a tunnel (VPNs and overlays of containers too), or an interface behind which there is nothing. What the kernel does not
  // say is none.
  bool IsRelay(const std::string& name) const;

 private:
  std::string DriverOf(const std::string& name) const;

  UniqueFd fd_;
  std::map<std::string, int> types_;  // of hardware, ARPHRD_..., by name
};

}  // namespace weft
