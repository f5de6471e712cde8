#include "base/interfaces.h"

#include <algorithm>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/interface_kind.h"
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

  // It says what is wanted, not what is not.
  bool selects() const { return !names.empty() && !exclude; }

  bool Fits(std::string_view name) const {
    for (const std::string& wanted : names) {
      if (exact ? name == wanted : absl::StartsWith(ToAbsl(name), wanted)) return !exclude;
    }
    return exclude || names.empty();
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
  for (const NetworkInterface& item : present) {
    list += StrCat(list.empty() ? "" : ", ", item.name, " (", item.address,
                   item.carrier ? "" : ", no carrier", ")");
  }
  return list.empty() ? "none" : list;
}

// The lower, the better; negative: not at all.
int Place(const NetworkInterface& item, const InterfaceRule& rule) {
  if (!rule.Fits(item.name)) return -1;
  const bool named = rule.selects();
  if (!named && (item.loopback || item.link_local)) return -1;
  int place = item.ipv6 ? 1 : 0;
  if (item.link_local) place += 2;
  if (!named && item.relay) place += 4;
  if (rule.names.empty() && absl::StartsWith(item.name, "docker")) place += 8;
  return place + (item.carrier ? 0 : 16);
}

std::string TextOf(const InterfaceWish& wish) {
  return StrCat(wish.variable, "=", wish.rule);
}

std::string Variable(const char* name) {
  const char* value = EnvironmentValue(name);
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

}  // namespace

std::vector<NetworkInterface> NetworkInterfaces() {
  std::vector<NetworkInterface> present;
  ifaddrs* first = nullptr;
  HoldStandardFds();
  if (getifaddrs(&first) != 0) return present;
  InterfaceKinds kinds(*first);
  for (const ifaddrs* item = first; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    const bool ipv6 = item->ifa_addr->sa_family == AF_INET6;
    if (!ipv6 && item->ifa_addr->sa_family != AF_INET) continue;
    char text[NI_MAXHOST];
    const socklen_t bytes = ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(item->ifa_addr, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    const auto* address = reinterpret_cast<const sockaddr_in6*>(item->ifa_addr);
    present.push_back({.name = item->ifa_name,
                       .address = text,
                       .loopback = (item->ifa_flags & IFF_LOOPBACK) != 0,
                       .ipv6 = ipv6,
                       .link_local = ipv6 && IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr),
                       .carrier = (item->ifa_flags & IFF_RUNNING) != 0,
                       .relay = kinds.IsRelay(item->ifa_name)});
  }
  freeifaddrs(first);
  return present;
}

InterfaceWish WishedInterfaces() {
  if (!GetOptions().ifname.empty()) return {"WEFT_IFNAME", GetOptions().ifname};
  const std::string gloo = Variable("GLOO_SOCKET_IFNAME");
  if (!gloo.empty()) return {"GLOO_SOCKET_IFNAME", StrCat("=", gloo)};
  const std::string nccl = Variable("NCCL_SOCKET_IFNAME");
  if (!nccl.empty()) return {"NCCL_SOCKET_IFNAME", nccl};
  return {};
}

absl::StatusOr<NetworkInterface> ChooseInterface(const InterfaceWish& wish,
                                                 const std::vector<NetworkInterface>& present) {
  const InterfaceRule rule = ParseInterfaceRule(wish.rule);
  if (!wish.rule.empty() && rule.names.empty()) {
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        StrCat(TextOf(wish), " has no name; it is a list such as eth,ib or =eth0 or ^docker"));
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
  if (wish.rule.empty()) return NetworkInterface{};
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat(TextOf(wish), " fits no network interface that is up and has an address; there are: ",
             ListInterfaces(present)));
}

absl::StatusOr<std::vector<NetworkInterface>> ChooseRails(
    const InterfaceWish& wish, const std::vector<NetworkInterface>& present) {
  WEFT_ASSIGN_OR_RETURN(const NetworkInterface first, ChooseInterface(wish, present));
  if (first.address.empty()) return std::vector<NetworkInterface>{};
  std::vector<NetworkInterface> rails = {first};
  const InterfaceRule rule = ParseInterfaceRule(wish.rule);
  // Who says what is not wanted does not say that all else is.
  if (!rule.selects()) return rails;
  std::vector<const NetworkInterface*> others;
  for (const NetworkInterface& item : present) {
    if (Place(item, rule) >= 0) others.push_back(&item);
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](const auto* a, const auto* b) { return Place(*a, rule) < Place(*b, rule); });
  for (const NetworkInterface* item : others) {
    const bool there = std::any_of(rails.begin(), rails.end(), [&](const NetworkInterface& rail) {
      return rail.name == item->name;
    });
    if (!there && rails.size() < kRailsMax) rails.push_back(*item);
  }
  return rails;
}

absl::StatusOr<OwnAddresses> AddressesForOthers() {
  const InterfaceWish wish = WishedInterfaces();
  WEFT_ASSIGN_OR_RETURN(const std::vector<NetworkInterface> rails,
                        ChooseRails(wish, NetworkInterfaces()));
  if (rails.empty()) {
    LogInfo("there is no network interface but loopback: other machines cannot reach this one");
    return OwnAddresses{.rails = {}, .choice = "loopback, as there is no other interface"};
  }
  OwnAddresses own;
  std::vector<std::string> names;
  for (const NetworkInterface& rail : rails) {
    own.rails.push_back(rail.address);
    names.push_back(rail.name);
  }
  own.choice = StrCat(names.size() == 1 ? "interface " : "interfaces ", absl::StrJoin(names, ", "),
                      wish.rule.empty() ? ", chosen automatically" : ", by ",
                      wish.rule.empty() ? "" : TextOf(wish));
  LogInfo("others reach this machine at ", absl::StrJoin(own.rails, ", "), ", ", own.choice);
  return own;
}

std::string OnOwnLink(const std::string& host, const std::string& own) {
  const size_t scope = host.find('%');
  const size_t own_scope = own.find('%');
  if (scope == std::string::npos || own_scope == std::string::npos) return host;
  return StrCat(host.substr(0, scope), own.substr(own_scope));
}

}  // namespace weft
