// Which sets of ranks --repro runs.
#include <gtest/gtest.h>

#include "bench/weft_perf/repro.h"

namespace weft::perf {
namespace {

std::string Names(const std::vector<ReproWorld>& worlds) {
  std::string names;
  for (const ReproWorld& world : worlds)
    names += (world.threads ? "threads:" : "ranks:") + world.isa + " ";
  return names;
}

TEST(ReproWorlds, ProcessesAlsoRunAsThreads) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, nullptr)),
            "ranks:scalar threads:scalar ranks:avx2 threads:avx2 ");
}

TEST(ReproWorlds, TheUsersChoiceStays) {
  Options options;
  options.processes = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar", "avx2"}, "avx512")),
            "ranks:avx512 threads:avx512 ");
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, "")), "ranks:scalar threads:scalar ");
  options.threads_as_ranks = true;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr)), "ranks:scalar ");
  options.threads_as_ranks = false;
  options.threads = 2;
  EXPECT_EQ(Names(ReproWorlds(options, {"scalar"}, nullptr)), "ranks:scalar ");
}

TEST(ReproWorlds, EveryCpuHasPlainInstructions) {
  ASSERT_FALSE(CpuIsas().empty());
  EXPECT_EQ(CpuIsas().front(), "scalar");
}

}  // namespace
}  // namespace weft::perf
