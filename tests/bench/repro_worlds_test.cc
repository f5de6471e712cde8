// Which sets of ranks --repro runs.
#include <gtest/gtest.h>

#include "bench/weft_perf/repro.h"

namespace weft::perf {
namespace {

std::string Names(const std::vector<ReproWorld>& worlds) {
  std::string names;
  for (const ReproWorld& world : worlds) {
    names += (world.threads ? "threads:" : "ranks:") + world.isa;
    names += world.nodes.empty() ? " " : ":" + world.nodes + " ";
  }
  return names;
}

TEST(ReproWorlds, ProcessesAlsoRunAsThreads) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, nullptr, "1")),
            "ranks:scalar threads:scalar ranks:avx2 threads:avx2 ");
}

TEST(ReproWorlds, ProcessesAreOnNodesOfEveryShape) {
  Options options;
  options.processes = 4;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, nullptr, nullptr)),
            "ranks:scalar threads:scalar ranks:avx2 threads:avx2 "
            "ranks:avx2:2 ranks:avx2:4 ranks:avx2:0,0,0,1 ranks:avx2:0,1,0,1 ");
  options.processes = 3;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr, "")),
            "ranks:scalar threads:scalar ranks:scalar:2 ranks:scalar:3 ranks:scalar:0,0,1 "
            "ranks:scalar:0,1,0 ");
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr, nullptr)),
            "ranks:scalar threads:scalar ranks:scalar:2 ");
  options.processes = 1;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr, nullptr)),
            "ranks:scalar threads:scalar ");
}

TEST(ReproWorlds, TheUsersChoiceStays) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, "avx512", "1")),
            "ranks:avx512 threads:avx512 ");
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, "", "2")), "ranks:scalar threads:scalar ");
  options.threads_as_ranks = true;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr, nullptr)), "ranks:scalar ");
  options.threads_as_ranks = false;
  options.threads = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr, nullptr)), "ranks:scalar ");
}

TEST(ReproWorlds, EveryCpuHasPlainInstructions) {
  ASSERT_FALSE(CpuIsas().empty());
  EXPECT_EQ(CpuIsas().front(), "scalar");
}

}  // namespace
}  // namespace weft::perf
