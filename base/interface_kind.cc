#include "base/interface_kind.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/new_fd.h"
#include "base/text.h"

namespace weft {
namespace {

// Of interfaces that are made by programs, as a kernel names them. A veth is none: it is all that a container has.
constexpr std::string_view kRelayDrivers[] = {
    "bridge", "dummy", "geneve", "gre",    "gretap", "ip6gre", "ip6tnl",    "ipip",
    "ipvti",  "sit",   "tun",    "tunnel", "vti",    "vxlan",  "wireguard",
};

// Those that have no Ethernet frames: older kernels do not name what made them.
constexpr int kRelayTypes[] = {ARPHRD_TUNNEL, ARPHRD_TUNNEL6, ARPHRD_SIT, ARPHRD_IPGRE,
                               ARPHRD_PPP,    ARPHRD_NONE,    823 /* ARPHRD_IP6GRE */};

}  // namespace

InterfaceKinds::InterfaceKinds(const ifaddrs& first)
    : fd_(MakeSocket(AF_INET, SOCK_DGRAM)) {
  for (const ifaddrs* item = &first; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != AF_PACKET) continue;
    types_[item->ifa_name] = reinterpret_cast<const sockaddr_ll*>(item->ifa_addr)->sll_hatype;
  }
}

std::string InterfaceKinds::DriverOf(const std::string& name) const {
  ethtool_drvinfo info = {};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request = {};
  CopyText(request.ifr_name, name);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (!fd_.valid() || ioctl(fd_.get(), SIOCETHTOOL, &request) != 0) return "";
  info.driver[sizeof(info.driver) - 1] = 0;
  return info.driver;
}

bool InterfaceKinds::IsRelay(const std::string& name) const {
  const auto type = types_.find(name);
  if (type != types_.end() && std::find(std::begin(kRelayTypes), std::end(kRelayTypes),
                                        type->second) != std::end(kRelayTypes)) {
    return true;
  }
  return std::find(std::begin(kRelayDrivers), std::end(kRelayDrivers), DriverOf(name)) !=
         std::end(kRelayDrivers);
}

}  // namespace weft
