#include "base/interfaces.h"

#include <algorithm>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/options.h"
#include "base/standard_fds.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// "^=a,b" taken apart.
struct InterfaceRule {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  bool Fits(std::string_view name) const {
    for (const std::string& wanted : names) {
      if (exact ? name == wanted : absl::StartsWith(ToAbsl(name), wanted)) return !exclude;
    }
    return exclude;
  }
};

InterfaceRule ParseInterfaceRule(std::string_view text) {
  absl::string_view rest = ToAbsl(text);
  InterfaceRule rule;
  rule.exclude = absl::ConsumePrefix(&rest, "^");
  rule.exact = absl::ConsumePrefix(&rest, "=");
  rule.names = absl::StrSplit(rest, ',', absl::SkipWhitespace());
  for (std::string& name : rule.names)
    name = std::string(absl::StripAsciiWhitespace(name));
  return rule;
}

std::string ListInterfaces(const std::vector<NetworkInterface>& present) {
  std::string list;
  for (const NetworkInterface& item : present)
    list += StrCat(list.empty() ? "" : ", ", item.name, " (", item.address, ")");
  return list.empty() ? "none" : list;
}

// The lower, the better; negative: not at all.
int Place(const NetworkInterface& item, const InterfaceRule& rule) {
  if (rule.names.empty()) {
    if (item.loopback) return -1;
    return (absl::StartsWith(item.name, "docker") ? 2 : 0) + (item.ipv6 ? 1 : 0);
  }
  if (!rule.Fits(item.name) || (item.loopback && rule.exclude)) return -1;
  return item.ipv6 ? 1 : 0;
}

}  // namespace

std::vector<NetworkInterface> NetworkInterfaces() {
  std::vector<NetworkInterface> present;
  ifaddrs* first = nullptr;
  HoldStandardFds();
  if (getifaddrs(&first) != 0) return present;
  for (const ifaddrs* item = first; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    const bool ipv6 = item->ifa_addr->sa_family == AF_INET6;
    if (!ipv6 && item->ifa_addr->sa_family != AF_INET) continue;
    if (ipv6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(item->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
    }
    char text[NI_MAXHOST];
    const socklen_t bytes = ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(item->ifa_addr, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    present.push_back({.name = item->ifa_name,
                       .address = text,
                       .loopback = (item->ifa_flags & IFF_LOOPBACK) != 0,
                       .ipv6 = ipv6});
  }
  freeifaddrs(first);
  return present;
}

absl::StatusOr<NetworkInterface> ChooseInterface(std::string_view wanted,
                                                 const std::vector<NetworkInterface>& present) {
  const InterfaceRule rule = ParseInterfaceRule(wanted);
  if (!wanted.empty() && rule.names.empty()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("WEFT_IFNAME=", wanted,
                            " has no name; it is a list such as eth,ib or =eth0 or ^docker"));
  }
  const NetworkInterface* best = nullptr;
  int best_place = 0;
  for (const NetworkInterface& item : present) {
    const int place = Place(item, rule);
    if (place < 0 || (best != nullptr && place >= best_place)) continue;
    best = &item;
    best_place = place;
  }
  if (best != nullptr) return *best;
  if (wanted.empty()) return NetworkInterface{};
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("WEFT_IFNAME=", wanted,
                          " fits no network interface that is up and has an address; there are: ",
                          ListInterfaces(present)));
}

absl::StatusOr<std::vector<NetworkInterface>> ChooseRails(
    std::string_view wanted, const std::vector<NetworkInterface>& present) {
  WEFT_ASSIGN_OR_RETURN(const NetworkInterface first, ChooseInterface(wanted, present));
  if (first.address.empty()) return std::vector<NetworkInterface>{};
  std::vector<NetworkInterface> rails = {first};
  const InterfaceRule rule = ParseInterfaceRule(wanted);
  // Who says what is not wanted does not say that all else is.
  if (rule.names.empty() || rule.exclude) return rails;
  for (const bool ipv6 : {false, true}) {
    for (const NetworkInterface& item : present) {
      const bool there = std::any_of(rails.begin(), rails.end(), [&](const NetworkInterface& rail) {
        return rail.name == item.name;
      });
      if (item.ipv6 != ipv6 || there || Place(item, rule) < 0) continue;
      if (rails.size() < kRailsMax) rails.push_back(item);
    }
  }
  return rails;
}

absl::StatusOr<std::vector<std::string>> RailsForOthers() {
  const std::string& wanted = GetOptions().ifname;
  WEFT_ASSIGN_OR_RETURN(const std::vector<NetworkInterface> rails,
                        ChooseRails(wanted, NetworkInterfaces()));
  std::vector<std::string> addresses;
  for (const NetworkInterface& rail : rails) {
    if (!addresses.empty())
      LogInfo("and at ", rail.address, ", interface ", rail.name, ", another rail");
    addresses.push_back(rail.address);
  }
  return addresses;
}

absl::StatusOr<std::string> AddressForOthers() {
  const std::string& wanted = GetOptions().ifname;
  WEFT_ASSIGN_OR_RETURN(const NetworkInterface chosen,
                        ChooseInterface(wanted, NetworkInterfaces()));
  if (chosen.address.empty()) {
    LogInfo("there is no network interface but loopback: other machines cannot reach this one");
  } else {
    LogInfo("others reach this machine at ", chosen.address, ", interface ", chosen.name,
            wanted.empty() ? "" : StrCat(", by WEFT_IFNAME=", wanted));
  }
  return chosen.address;
}

}  // namespace weft
