// That the drawing is one: boxes lie in each other and not over each other, and everything is named.
#include "topology/topology_svg.h"

#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/machines.h"
#include "topology/binding.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Rect {
  double x, y, width, height;

  bool Contains(const Rect& other) const {
    return other.x >= x && other.y >= y && other.x + other.width <= x + width &&
           other.y + other.height <= y + height;
  }

  bool IsApartFrom(const Rect& other) const {
    return other.x >= x + width || x >= other.x + other.width || other.y >= y + height ||
           y >= other.y + other.height;
  }
};

// All but the background.
std::vector<Rect> Rects(const std::string& svg) {
  std::vector<Rect> rects;
  for (size_t at = svg.find("<rect x"); at != std::string::npos; at = svg.find("<rect x", at + 1)) {
    Rect rect{};
    EXPECT_EQ(std::sscanf(svg.c_str() + at, R"(<rect x="%lf" y="%lf" width="%lf" height="%lf")",
                          &rect.x, &rect.y, &rect.width, &rect.height),
              4);
    rects.push_back(rect);
  }
  return rects;
}

TEST(TopologySvg, BoxesLieInEachOtherOrApart) {
  for (const char* const name : kMachineNames) {
    const Topology topology = Machine(name);
    const std::vector<Rect> rects = Rects(TopologyAsSvg(topology));
    size_t objects = 1 + topology.network.size();
    for (const ObjectKind kind : kObjectKinds)
      objects += topology.ObjectsOf(kind).size();
    ASSERT_EQ(rects.size(), objects) << name;
    for (size_t i = 0; i < rects.size(); ++i) {
      EXPECT_TRUE(rects[0].Contains(rects[i]));
      for (size_t j = 0; j < i; ++j)
        EXPECT_TRUE(rects[j].Contains(rects[i]) || rects[j].IsApartFrom(rects[i])) << name;
    }
  }
}

TEST(TopologySvg, NamesWhatItDraws) {
  const std::string svg = TopologyAsSvg(Machine("xeon_snc2"));
  for (const char* const text :
       {"package 1<", "NUMA node 3, 64 GiB<", "L3 cache 0, 60 MiB<", "core 47<", "CPUs 47,95<",
        "ens2np0: ethernet, 100 Gbit/s, RDMA mlx5_1<", "PCI 0000:98:00.0 behind 0000:97:02.0<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("rank")));
}

TEST(TopologySvg, ShowsWhereRanksAre) {
  const Topology topology = Machine("two_cpus");
  const std::string svg =
      TopologyAsSvg(topology, *PlanBinding(topology, ObjectKind::kCore, 4, topology.cpus));
  EXPECT_THAT(svg, HasSubstr("ranks 0-1<"));
  EXPECT_THAT(svg, HasSubstr("ranks 2-3<"));
}

TEST(TopologySvg, NamesCannotEscape) {
  Topology topology = Machine("two_cpus");
  topology.host = "<script>&";
  const std::string svg = TopologyAsSvg(topology);
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

// As many as a file may have: drawn in the time of a unit test.
TEST(TopologySvg, DrawsTheLargestMachine) {
  Topology topology;
  topology.cpus = Cpus("0-8191");
  for (int cpu = 0; cpu < kCpusMax; ++cpu) {
    topology.cores.push_back({});
    topology.cores.back().cpus.Add(cpu);
  }
  ASSERT_TRUE(CompleteTopology(&topology).ok());
  EXPECT_EQ(Rects(TopologyAsSvg(topology)).size(), 8193u);
}

}  // namespace
}  // namespace weft
