// Which sets of ranks --repro runs.
#include <gtest/gtest.h>

#include "bench/weft_perf/repro.h"

namespace weft::perf::repro_worlds_test {
namespace {

std::string Names(const std::vector<ReproWorld>& worlds) {
  std::string names;
  for (const ReproWorld& world : worlds) {
    names += (world.threads ? "threads:" : "ranks:") + world.isa;
    names += world.nodes.empty() ? " " : ":" + world.nodes + ":" + world.transport + " ";
  }
  return names;
}

const std::vector<std::string> kTcp = {"tcp"};

TEST(ReproWorlds, ProcessesAlsoRunAsThreads) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, kTcp, {.nodes = "1"})),
            "ranks:scalar threads:scalar ranks:avx2 threads:avx2 ");
}

TEST(ReproWorlds, ProcessesAreOnNodesOfEveryShape) {
  Options options;
  options.processes = 4;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, kTcp, {})),
            "ranks:scalar threads:scalar ranks:avx2 threads:avx2 "
            "ranks:avx2:2:tcp ranks:avx2:4:tcp ranks:avx2:0,0,0,1:tcp ranks:avx2:0,1,0,1:tcp ");
  options.processes = 3;
  EXPECT_EQ(
      Names(ReproWorlds(options, {"scalar"}, kTcp, {.nodes = ""})),
      "ranks:scalar threads:scalar ranks:scalar:2:tcp ranks:scalar:3:tcp ranks:scalar:0,0,1:tcp "
      "ranks:scalar:0,1,0:tcp ");
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, kTcp, {})),
            "ranks:scalar threads:scalar ranks:scalar:2:tcp ");
  options.processes = 1;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, kTcp, {})), "ranks:scalar threads:scalar ");
}

TEST(ReproWorlds, NodesTalkByEveryTransport) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, {"tcp", "ucx"}, {})),
            "ranks:scalar threads:scalar ranks:scalar:2:tcp ranks:scalar:2:ucx ");
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, {"tcp", "ucx"}, {.transport = "auto"})),
            "ranks:scalar threads:scalar ranks:scalar:2:auto ");
}

TEST(ReproWorlds, TheUsersChoiceStays) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, kTcp, {.isa = "avx512", .nodes = "1"})),
            "ranks:avx512 threads:avx512 ");
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, kTcp, {.isa = "", .nodes = "2"})),
            "ranks:scalar threads:scalar ");
  options.threads_as_ranks = true;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, kTcp, {})), "ranks:scalar ");
  options.threads_as_ranks = false;
  options.threads = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, kTcp, {})), "ranks:scalar ");
}

TEST(ReproWorlds, EveryCpuHasPlainInstructions) {
  ASSERT_FALSE(CpuIsas().empty());
  EXPECT_EQ(CpuIsas().front(), "scalar");
}

}  // namespace
}  // namespace weft::perf::repro_worlds_test
