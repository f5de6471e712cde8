// Files of machines: what is written is read again, and what is no such file is refused, whatever it is.
#include "topology/topology_json.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/leak_check.h"
#include "tests/topology/machines.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Complaint(const std::string& text) {
  const absl::Status status = TopologyFromJson(text).status();
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << text.substr(0, 200);
  return std::string(status.message());
}

TEST(TopologyJson, GoldenMachinesKeepTheirText) {
  for (const char* const name : kMachineNames) {
    const std::string text = MachineText(name);
    const absl::StatusOr<Topology> topology = TopologyFromJson(text);
    ASSERT_TRUE(topology.ok()) << name << ": " << topology.status();
    EXPECT_EQ(TopologyAsJson(*topology), text) << name;
  }
  const Topology epyc = Machine("epyc_nps4");
  EXPECT_EQ(epyc.cpus.count(), 256);
  EXPECT_EQ(epyc.l3_caches.size(), 16u);
  EXPECT_EQ(epyc.l3_caches[3].bytes, 32u << 20);
  EXPECT_EQ(epyc.numa_nodes[7].cpus.ToList(), "112-127,240-255");
  EXPECT_EQ(epyc.network[1].rdma, "mlx5_0");
  EXPECT_EQ(epyc.network[1].pci.back(), "0000:21:00.0");
  EXPECT_EQ(epyc.numa_distances[0][7], 32);
}

TEST(TopologyJson, MostMayBeMissing) {
  const absl::StatusOr<Topology> topology = TopologyFromJson(
      R"({"cpus":"0-1","version":1,"colour":"green","cores":[{"cpus":"1","number":5}]})");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->cpus.ToList(), "0-1");
  EXPECT_TRUE(topology->packages.empty());
  EXPECT_EQ(topology->cores[0].number, 0);
}

TEST(TopologyJson, WhatIsWrongIsSaid) {
  EXPECT_THAT(Complaint(""), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint(std::string(1 << 20, '[')), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint(std::string(kTopologyTextBytesMax + 1, ' ')), HasSubstr("more than"));
  EXPECT_THAT(Complaint("{}"), HasSubstr("no member \"version\""));
  EXPECT_THAT(Complaint(R"({"version":2})"),
              HasSubstr("version 2 of the format; this program reads 1"));
  EXPECT_THAT(Complaint(R"({"version":1})"), HasSubstr("no member \"cpus\""));
  EXPECT_THAT(Complaint(R"({"version":1,"cpus":"x"})"), HasSubstr("no list of CPUs"));
  EXPECT_THAT(Complaint(R"({"version":1,"cpus":[0]})"), HasSubstr("\"cpus\" that is no text"));
  const auto with = [](const std::string& member) {
    return R"({"version":1,"cpus":"0-1",)" + member + "}";
  };
  EXPECT_THAT(Complaint(with(R"("cores":[1])")), HasSubstr("no member \"number\""));
  EXPECT_THAT(Complaint(with(R"("cores":{})")), HasSubstr("no list"));
  EXPECT_THAT(Complaint(with(R"("cores":[{"number":-1,"cpus":"0"}])")), HasSubstr("no number"));
  EXPECT_THAT(Complaint(with(R"("l3_caches":[{"number":0,"cpus":"0","bytes":1.5}])")),
              HasSubstr("\"bytes\" that is no number"));
  EXPECT_THAT(
      Complaint(with(R"("l3_caches":[{"number":0,"cpus":"0","bytes":99999999999999999999}])")),
      HasSubstr("\"bytes\" that is no number"));
  EXPECT_THAT(Complaint(with(R"("hypervisor":1)")), HasSubstr("neither true nor false"));
  EXPECT_THAT(Complaint(with(R"("numa_distances":[1])")), HasSubstr("row of NUMA distances"));
  EXPECT_THAT(Complaint(with(R"("network":[{"name":"e","kind":"other","pci":[1]}])")),
              HasSubstr("PCI address that is no text"));
  EXPECT_THAT(Complaint(with("\"host\":\"\\u00e4\"")), HasSubstr("no plain text"));
}

// Whatever becomes of a file, it is read or refused with a sentence.
TEST(TopologyJson, DamagedFilesDoNoHarm) {
  const unsigned long long seed = test::TestSeed(20261125);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = MachineText(round % 2 == 0 ? "cpus_in_turns" : "two_cpus");
    for (size_t left = 1 + random() % 3; left > 0; --left) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
      }
    }
    const absl::StatusOr<Topology> topology = TopologyFromJson(text);
    if (topology.ok()) {
      const absl::StatusOr<Topology> again = TopologyFromJson(TopologyAsJson(*topology));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, *topology);
    } else {
      ++refused;
      EXPECT_EQ(ResultOf(topology.status()), WEFT_CORRUPT);
      EXPECT_FALSE(topology.status().message().empty());
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace weft
