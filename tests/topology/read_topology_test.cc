#include "topology/read_topology.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/topology/machines.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string PathOf(const std::string& name) {
  return std::string(WEFT_MACHINES "/") + name + ".json";
}

TEST(ReadTopology, TakesTheFileInPlaceOfTheMachine) {
  // Before the first look at the options, which is the only one.
  ASSERT_EQ(setenv("WEFT_TOPOLOGY_FILE", PathOf("xeon_snc2").c_str(), 1), 0);
  const absl::StatusOr<Topology> topology = ReadTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(*topology, Machine("xeon_snc2"));
  EXPECT_EQ(*ReadTopologyFile(PathOf("epyc_nps4")), Machine("epyc_nps4"));
}

TEST(ReadTopology, AFileThatIsNoneIsNamed) {
  const absl::Status missing = ReadTopologyFile("/proc/none").status();
  EXPECT_EQ(ResultOf(missing), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("opening /proc/none: No such file"));
  EXPECT_EQ(ResultOf(ReadTopologyFile("/").status()), WEFT_SYSTEM_ERROR);
  const absl::Status empty = ReadTopologyFile("/dev/null").status();
  EXPECT_EQ(ResultOf(empty), WEFT_CORRUPT);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("/dev/null: the text of the topology has"));
  // No end of it, so it is read up to the bound.
  EXPECT_EQ(ResultOf(ReadTopologyFile("/dev/zero").status()), WEFT_CORRUPT);
}

}  // namespace
}  // namespace weft
