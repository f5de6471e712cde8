// A thousand inputs of the fuzzer's kind in every run of the tests, and those that it has found.
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/fuzz/checkpoint_case.h"
#include "tests/fuzz/import_case.h"

namespace weft::test::checkpoint_fuzz_test {
namespace {

// The whole checkpoint but for one file, in which `from` becomes `to`.
std::string With(const CheckpointCase& checkpoint, CheckpointFile file, std::string_view from,
                 std::string_view to) {
  std::string piece = checkpoint.Piece(file, /*verbatim=*/false);
  const size_t at = piece.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in " << piece;
  if (at != std::string::npos) piece.replace(at, from.size(), to);
  return std::string(1, static_cast<char>(FlagOf(file))) + piece;
}

TEST(CheckpointFuzz, SeedsAreWhole) {
  CheckpointCase checkpoint;
  constexpr size_t kNames = 2;
  std::vector<std::string> seeds = checkpoint.Seeds();
  ASSERT_GT(seeds.size(), kNames);
  seeds.resize(seeds.size() - kNames);
  for (const std::string& seed : seeds) {
    const CheckpointOutcome outcome = checkpoint.Try(seed);
    EXPECT_EQ(outcome.wrong, "");
    EXPECT_NE(outcome.verified, outcome.restored) << seed;
  }
}

TEST(CheckpointFuzz, WhateverTheFilesSayIsRestoredOrRefused) {
  constexpr int kInputs = 1000;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  CheckpointCase checkpoint;
  const std::vector<std::string> seeds = checkpoint.Seeds();
  int opened = 0;
  int restored = 0;
  for (int i = 0; i < kInputs; ++i) {
    const std::string input = CheckpointCase::Mutate(seeds[random() % seeds.size()], random);
    const CheckpointOutcome outcome = checkpoint.Try(input);
    ASSERT_EQ(outcome.wrong, "") << "input " << i << ": " << input;
    opened += outcome.opened ? 1 : 0;
    restored += outcome.restored ? 1 : 0;
  }
  // Else the changes are too wild to find anything.
  EXPECT_GT(opened, kInputs / 10);
  EXPECT_GT(restored, kInputs / 100);
  EXPECT_LT(restored, kInputs * 9 / 10);
}

// A reader that went by them in the order of the list began before its cut.
TEST(CheckpointFuzz, CutsOutOfOrderAreRefused) {
  CheckpointCase checkpoint;
  const CheckpointOutcome outcome = checkpoint.Try(
      With(checkpoint, CheckpointFile::kManifest, "[[0,0,3],[1,3,6]]", "[[1,3,6],[0,0,3]]"));
  EXPECT_FALSE(outcome.opened);
  EXPECT_FALSE(outcome.restored);
}

// The name promises six elements, and three are there: what lies behind it was taken for the rest, or there was nothing.
TEST(CheckpointFuzz, EntriesShorterThanTheirNamesAreRefused) {
  CheckpointCase checkpoint;
  std::string header = checkpoint.Piece(CheckpointFile::kTensors0, false);
  for (size_t at = 0; (at = header.find("[0:3)", at)) != std::string::npos;)
    header.replace(at, 5, "[0:6)");
  std::string input =
      With(checkpoint, CheckpointFile::kManifest, "[[0,0,3],[1,3,6]]", "[[0,0,6]]") + '\xff' +
      header;
  input[0] =
      static_cast<char>(FlagOf(CheckpointFile::kManifest) | FlagOf(CheckpointFile::kTensors0));
  const CheckpointOutcome outcome = checkpoint.Try(input);
  EXPECT_TRUE(outcome.opened);
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_FALSE(outcome.restored);
}

TEST(ImportFuzz, WhateverOthersFilesSayIsImportedOrRefused) {
  constexpr int kInputs = 1000;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const ImportCase model;
  const std::vector<std::string> seeds = model.Seeds();
  for (const std::string& input : seeds) {
    const ImportOutcome outcome = model.Try(input);
    EXPECT_EQ(outcome.wrong, "");
    EXPECT_TRUE(outcome.imported);
  }
  int imported = 0;
  for (int i = 0; i < kInputs; ++i) {
    const std::string input = ImportCase::Mutate(seeds[random() % seeds.size()], random);
    const ImportOutcome outcome = model.Try(input);
    ASSERT_EQ(outcome.wrong, "") << "input " << i << ": " << input;
    imported += outcome.imported ? 1 : 0;
  }
  EXPECT_GT(imported, kInputs / 50);
  EXPECT_LT(imported, kInputs * 9 / 10);
}

}  // namespace
}  // namespace weft::test::checkpoint_fuzz_test
