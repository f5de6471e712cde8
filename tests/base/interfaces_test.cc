#include "base/interfaces.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include "base/status.h"
#include "tests/support/forked_ranks.h"

namespace weft::interfaces_test {
namespace {

const std::vector<NetworkInterface> kPresent = {
    {.name = "lo", .address = "127.0.0.1", .loopback = true},
    {.name = "docker0", .address = "172.17.0.1"},
    {.name = "eth0", .address = "fd00::1", .ipv6 = true},
    {.name = "eth0", .address = "10.0.0.1"},
    {.name = "eth01", .address = "10.0.1.1"},
    {.name = "ib0", .address = "192.168.0.1"},
    {.name = "wg0", .address = "fd00::2", .ipv6 = true},
};

// What a user has set, if anything.
InterfaceWish Wish(const std::string& rule) {
  return rule.empty() ? InterfaceWish{} : InterfaceWish{"WEFT_IFNAME", rule};
}

std::string Chosen(const std::string& wanted,
                   const std::vector<NetworkInterface>& present = kPresent) {
  const auto chosen = ChooseInterface(Wish(wanted), present);
  return chosen.ok() ? chosen->address : std::string(chosen.status().message());
}

TEST(Interfaces, EachRuleChoosesByNcclsGrammar) {
  const std::pair<const char*, const char*> rules[] = {
      {"", "10.0.0.1"},           // neither loopback nor docker
      {"eth", "10.0.0.1"},        // IPv4 first
      {"eth01", "10.0.1.1"},      //
      {"ib", "192.168.0.1"},      //
      {"ib,eth", "10.0.0.1"},     // in the system's order, not the list's
      {"xyz,ib", "192.168.0.1"},  // what is not there does no harm
      {"=eth01,ib0", "10.0.1.1"},
      {"=ib0", "192.168.0.1"},
      {"^docker,eth", "192.168.0.1"},
      {"^eth", "172.17.0.1"},  // who excludes says all that is excluded, but for loopback
      {"^=eth0,docker0", "10.0.1.1"},
      {"^docker,eth,ib", "fd00::2"},
      {"wg", "fd00::2"},
      {"lo", "127.0.0.1"},
      {"docker", "172.17.0.1"},
      {" eth01 , ib0,", "10.0.1.1"},
  };
  for (const auto& [wanted, address] : rules)
    EXPECT_EQ(Chosen(wanted), address) << wanted;
}

TEST(Interfaces, AllThatAreNamedAreRails) {
  using Names = std::vector<std::string>;
  const std::pair<const char*, Names> rules[] = {
      {"", {"10.0.0.1"}},
      {"eth", {"10.0.0.1", "10.0.1.1"}},
      {"=eth01,eth0", {"10.0.0.1", "10.0.1.1"}},  // in the system's order
      {"=eth0", {"10.0.0.1"}},
      {"wg,ib", {"192.168.0.1", "fd00::2"}},
      {"^docker", {"10.0.0.1"}},  // what is not wanted
  };
  for (const auto& [wanted, addresses] : rules) {
    const auto rails = ChooseRails(Wish(wanted), kPresent);
    ASSERT_TRUE(rails.ok()) << rails.status();
    Names chosen;
    for (const NetworkInterface& rail : *rails)
      chosen.push_back(rail.address);
    EXPECT_EQ(chosen, addresses) << wanted;
  }
  EXPECT_TRUE(ChooseRails({}, {kPresent[0]})->empty());
  EXPECT_EQ(ResultOf(ChooseRails(Wish("enp"), kPresent).status()), WEFT_INVALID_ARGUMENT);
  std::vector<NetworkInterface> many;
  for (int i = 0; i < 20; ++i)
    many.push_back({.name = "eth" + std::to_string(i), .address = "10.0.0." + std::to_string(i)});
  EXPECT_EQ(ChooseRails(Wish("eth"), many)->size(), kRailsMax);
}

TEST(Interfaces, WhatFitsNothingIsRefusedWithWhatThereIs) {
  for (const char* wanted : {"=eth", "enp", "^lo,docker,eth,ib,wg", "=^eth0", "=docker"}) {
    const auto chosen = ChooseInterface(Wish(wanted), kPresent);
    EXPECT_EQ(ResultOf(chosen.status()), WEFT_INVALID_ARGUMENT) << wanted;
    EXPECT_NE(Chosen(wanted).find("eth0 (10.0.0.1)"), std::string::npos) << Chosen(wanted);
  }
  for (const char* wanted : {"^", "=", "^=", ",", "^ ,"}) {
    EXPECT_NE(Chosen(wanted).find("has no name"), std::string::npos) << Chosen(wanted);
  }
  EXPECT_NE(Chosen("eth", {}).find("there are: none"), std::string::npos) << Chosen("eth", {});
}

TEST(Interfaces, DockerIsTakenWhereThereIsNothingElse) {
  EXPECT_EQ(Chosen("", {kPresent[0], kPresent[1]}), "172.17.0.1");
  EXPECT_EQ(Chosen("", {kPresent[0]}), "");
  EXPECT_EQ(Chosen("", {}), "");
}

// What a machine of a cluster has beside the one that counts.
const std::vector<NetworkInterface> kBusy = {
    {.name = "lo", .address = "127.0.0.1", .loopback = true},
    {.name = "virbr0", .address = "192.168.122.1", .carrier = false, .relay = true},
    {.name = "cni0", .address = "10.244.0.1", .relay = true},
    {.name = "flannel.1", .address = "10.244.0.0", .relay = true},
    {.name = "eth0", .address = "10.0.0.1", .carrier = false},
    {.name = "eth1", .address = "fe80::1%eth1", .ipv6 = true, .link_local = true},
    {.name = "eth1", .address = "fd00::1", .ipv6 = true},
    {.name = "eth2", .address = "10.2.0.1"},
    {.name = "tailscale0", .address = "100.64.0.1", .relay = true},
};

TEST(Interfaces, ThoseWithoutCarrierBridgesAndTunnelsComeLast) {
  EXPECT_EQ(Chosen("", kBusy), "10.2.0.1");
  EXPECT_EQ(Chosen("^eth2", kBusy), "fd00::1");
  EXPECT_EQ(Chosen("^eth", kBusy), "10.244.0.1") << "a bridge, before what has no carrier";
  EXPECT_EQ(Chosen("^eth1,eth2,cni,flannel,tailscale", kBusy), "10.0.0.1");
  EXPECT_EQ(Chosen("^eth,cni,flannel,tailscale", kBusy), "192.168.122.1");
  EXPECT_EQ(Chosen("eth", kBusy), "10.2.0.1") << "eth0 has no carrier";
  EXPECT_EQ(Chosen("=eth0", kBusy), "10.0.0.1") << "who names one alone gets it";
  EXPECT_EQ(Chosen("cni,eth", kBusy), "10.244.0.1") << "a bridge that is named is as good as any";
  const auto rails = ChooseRails(Wish("eth"), kBusy);
  ASSERT_TRUE(rails.ok()) << rails.status();
  ASSERT_EQ(rails->size(), 3u);
  EXPECT_EQ((*rails)[2].name, "eth0");
}

TEST(Interfaces, LinkLocalAddressesAreTakenWhereTheyAreAllThatANamedOneHas) {
  const std::vector<NetworkInterface> bare = {kBusy[0], kBusy[5]};
  EXPECT_EQ(Chosen("", bare), "");
  EXPECT_NE(Chosen("^docker", bare).find("eth1 (fe80::1%eth1)"), std::string::npos);
  EXPECT_EQ(Chosen("eth1", bare), "fe80::1%eth1");
  EXPECT_EQ(Chosen("eth1", kBusy), "fd00::1");
  EXPECT_EQ(OnOwnLink("fe80::2%enp3s0", "fe80::1%eth1"), "fe80::2%eth1");
  EXPECT_EQ(OnOwnLink("fe80::2%enp3s0", "10.0.0.1"), "fe80::2%enp3s0");
  EXPECT_EQ(OnOwnLink("10.0.0.2", "fe80::1%eth1"), "10.0.0.2");
}

// In a process of its own: options are read once.
std::string WishOf(const std::vector<std::pair<const char*, const char*>>& variables) {
  return test::RunForkedRanks(
             1, 60,
             [&](int) -> std::string {
               for (const char* name : {"WEFT_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
                 unsetenv(name);
               for (const auto& [name, value] : variables)
                 setenv(name, value, 1);
               const InterfaceWish wish = WishedInterfaces();
               return "wish " + wish.variable + " " + wish.rule;
             })[0]
      .Problem();
}

TEST(Interfaces, GloosAndNcclsVariablesAreFallbacks) {
  using ::testing::HasSubstr;
  const auto gloo = std::pair("GLOO_SOCKET_IFNAME", "eth0,eth1");
  const auto nccl = std::pair("NCCL_SOCKET_IFNAME", "^docker");
  EXPECT_THAT(WishOf({}), HasSubstr("wish  "));
  EXPECT_THAT(WishOf({nccl}), HasSubstr("wish NCCL_SOCKET_IFNAME ^docker"));
  EXPECT_THAT(WishOf({gloo, nccl}), HasSubstr("wish GLOO_SOCKET_IFNAME =eth0,eth1"))
      << "Gloo's are whole names";
  EXPECT_THAT(WishOf({gloo, nccl, {"WEFT_IFNAME", "ib"}}), HasSubstr("wish WEFT_IFNAME ib"));
  EXPECT_THAT(WishOf({{"GLOO_SOCKET_IFNAME", ""}, nccl}), HasSubstr("wish NCCL_SOCKET_IFNAME"));
  const absl::Status refused = ChooseInterface({"GLOO_SOCKET_IFNAME", "=ib0"}, kBusy).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("GLOO_SOCKET_IFNAME==ib0 fits no network interface"));
}

// What a command of ip says, or "" if it has done what it should.
std::string Ip(const std::string& arguments) {
  return std::system(("ip " + arguments + " >/dev/null 2>&1").c_str()) == 0 ? ""
                                                                            : "ip " + arguments;
}

const NetworkInterface* Find(const std::vector<NetworkInterface>& present, const char* name) {
  const auto found = std::find_if(present.begin(), present.end(), [&](const auto& item) {
    return item.name == name && !item.ipv6;
  });
  return found == present.end() ? nullptr : &*found;
}

// In a network of its own: a bridge that the system lists first, and a cable.
std::string ChooseBesideABridge() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return "skip";
  for (const char* change :
       {"link add b0 type bridge", "addr add 10.9.0.1/24 dev b0", "link set b0 up",
        "link add v0 type veth peer name v1", "addr add 10.8.0.1/24 dev v0", "link set v0 up",
        "link set v1 up", "link add v2 type veth peer name v3", "link set v2 master b0 up",
        "link set v3 up"}) {
    if (!Ip(change).empty()) return "skip: " + Ip(change);
  }
  // A carrier is seen a moment after it is there.
  const NetworkInterface* cable = nullptr;
  const NetworkInterface* bridge = nullptr;
  std::vector<NetworkInterface> present;
  for (int look = 0; look < 1000; ++look) {
    present = NetworkInterfaces();
    cable = Find(present, "v0");
    bridge = Find(present, "b0");
    if (cable == nullptr || bridge == nullptr) return "not all are there";
    if (cable->carrier && bridge->carrier) break;
    poll(nullptr, 0, 5);
  }
  if (!bridge->carrier || !cable->carrier) return "no carrier";
  if (!bridge->relay) return "the bridge is taken for a network";
  if (cable->relay) return "the cable is taken for a bridge";
  const auto own = AddressesForOthers();
  if (!own.ok()) return own.status().ToString();
  if (own->rails != std::vector<std::string>{"10.8.0.1"}) return "chose " + own->choice;
  if (own->choice != "interface v0, chosen automatically") return own->choice;
  if (!Ip("link set v1 down").empty()) return "v1 stays up";
  for (int look = 0; look < 1000 && cable->carrier; ++look) {
    poll(nullptr, 0, 5);
    present = NetworkInterfaces();
    cable = Find(present, "v0");
    if (cable == nullptr) return "it has gone";
  }
  return cable->carrier ? "its carrier stays" : "";
}

TEST(Interfaces, BridgesAndCarriersAreKnownInANetworkOfItsOwn) {
  const std::string problem =
      test::RunForkedRanks(1, 60, [](int) { return ChooseBesideABridge(); })[0].Problem();
  if (problem.find("skip") != std::string::npos) GTEST_SKIP() << "no networks can be made here";
  EXPECT_EQ(problem, "");
}

TEST(Interfaces, ThoseOfThisMachineHaveNamesAndAddresses) {
  for (const NetworkInterface& item : NetworkInterfaces()) {
    EXPECT_FALSE(item.name.empty());
    EXPECT_FALSE(item.address.empty());
    EXPECT_EQ(item.ipv6, item.address.find(':') != std::string::npos) << item.address;
  }
}

}  // namespace
}  // namespace weft::interfaces_test
