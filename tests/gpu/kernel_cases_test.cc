// The launches that a GPU is to be tried with, on the twins: every kernel has some, a launch is the same wherever its memory
// lies, and nothing around its arrays is written.
#include "tests/gpu/kernel_cases.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/device/twins.h"

namespace weft::test::kernel_cases_test {
namespace {

constexpr uint32_t kSeed = 1;

std::vector<char> RunTwin(const KernelCase& one, const TwinLaunch& launch) {
  AlignedBytes memory(one.arena.image());
  const std::vector<char> parameters = one.parameters(memory.at());
  FindTwin(one.kernel)(parameters.data(), launch);
  return {memory.at(), memory.at() + one.arena.image().size()};
}

TEST(KernelCases, AreOfEveryKernel) {
  std::set<std::string> left;
  for (const std::string& name : TwinNames())
    left.insert(name);
  KernelCases cases(kSeed, {.rounds = 1, .small = true});
  cases.ForEach([&](const KernelCase& one) { left.erase(one.kernel); });
  EXPECT_EQ(left, std::set<std::string>());
}

TEST(KernelCases, ComputeTheSameWhateverTheLaunch) {
  KernelCases cases(kSeed, {.rounds = 1, .small = true});
  int64_t changed = 0;
  int64_t count = 0;
  cases.ForEach([&](const KernelCase& one) {
    const std::vector<char> made = RunTwin(one, {.blocks = 1, .threads = 3});
    ASSERT_EQ(made, RunTwin(one, {.blocks = 2, .threads = 64})) << one.kernel << ", " << one.what;
    ++count;
    if (made != one.arena.image()) ++changed;
    for (size_t byte = 0; byte < made.size(); ++byte) {
      if (made[byte] == one.arena.image()[byte]) continue;
      ASSERT_LT(one.arena.PieceOf(byte), one.arena.piece_count())
          << one.kernel << ", " << one.what << ": wrote around its arrays";
    }
  });
  EXPECT_GT(changed, count * 9 / 10);
}

TEST(KernelCases, AreThoseOfTheirSeed) {
  const auto all = [](uint32_t seed) {
    std::vector<std::string> found;
    KernelCases cases(seed, {.rounds = 1, .small = true});
    cases.LambMoments([&](const KernelCase& one) {
      found.push_back(one.what + std::string(one.arena.image().begin(), one.arena.image().end()));
    });
    return found;
  };
  EXPECT_EQ(all(7), all(7));
  EXPECT_NE(all(7), all(8));
}

}  // namespace
}  // namespace weft::test::kernel_cases_test
