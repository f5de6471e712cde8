#include "base/interfaces.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"

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

std::string Chosen(std::string_view wanted,
                   const std::vector<NetworkInterface>& present = kPresent) {
  const auto chosen = ChooseInterface(wanted, present);
  return chosen.ok() ? chosen->address : std::string(chosen.status().message());
}

TEST(Interfaces, EachRuleChoosesByNcclsGrammar) {
  const std::pair<const char*, const char*> kRules[] = {
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
  for (const auto& [wanted, address] : kRules)
    EXPECT_EQ(Chosen(wanted), address) << wanted;
}

TEST(Interfaces, AllThatAreNamedAreRails) {
  using Names = std::vector<std::string>;
  const std::pair<const char*, Names> kRules[] = {
      {"", {"10.0.0.1"}},
      {"eth", {"10.0.0.1", "10.0.1.1"}},
      {"=eth01,eth0", {"10.0.0.1", "10.0.1.1"}},  // in the system's order
      {"=eth0", {"10.0.0.1"}},
      {"wg,ib", {"192.168.0.1", "fd00::2"}},
      {"^docker", {"10.0.0.1"}},  // what is not wanted
  };
  for (const auto& [wanted, addresses] : kRules) {
    const auto rails = ChooseRails(wanted, kPresent);
    ASSERT_TRUE(rails.ok()) << rails.status();
    Names chosen;
    for (const NetworkInterface& rail : *rails)
      chosen.push_back(rail.address);
    EXPECT_EQ(chosen, addresses) << wanted;
  }
  EXPECT_TRUE(ChooseRails("", {kPresent[0]})->empty());
  EXPECT_EQ(ResultOf(ChooseRails("enp", kPresent).status()), WEFT_INVALID_ARGUMENT);
  std::vector<NetworkInterface> many;
  for (int i = 0; i < 20; ++i)
    many.push_back({.name = "eth" + std::to_string(i), .address = "10.0.0." + std::to_string(i)});
  EXPECT_EQ(ChooseRails("eth", many)->size(), kRailsMax);
}

TEST(Interfaces, WhatFitsNothingIsRefusedWithWhatThereIs) {
  for (const char* wanted : {"=eth", "enp", "^lo,docker,eth,ib,wg", "=^eth0", "=docker"}) {
    const auto chosen = ChooseInterface(wanted, kPresent);
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

TEST(Interfaces, ThoseOfThisMachineHaveNamesAndAddresses) {
  for (const NetworkInterface& item : NetworkInterfaces()) {
    EXPECT_FALSE(item.name.empty());
    EXPECT_FALSE(item.address.empty());
    EXPECT_EQ(item.ipv6, item.address.find(':') != std::string::npos) << item.address;
  }
}

}  // namespace
}  // namespace weft::interfaces_test
