// Every byte of a checkpoint that is not as it was written is found before anything is made of it.
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test::damage_test {
namespace {

class CheckpointDamage : public testing::Test {
 protected:
  CheckpointDamage() : model_(1, 4) {
    MadeUpRanks ranks(model_, 2);
    EXPECT_TRUE(ranks
                    .Save(files_, "/c",
                          {.step = 7,
                           .config = "{}\n",
                           .values = {{.name = "v", .bytes = "x"},
                                      {.name = kMadeUpValue, .bytes = MadeUpValue(-1)}}})
                    .ok());
  }

  // What loading all of it, and looking at all of it, says. Nothing may come out that was not put in.
  absl::Status Look(SimFiles& files) {
    MadeUpRanks ranks(model_, 3);
    ranks.Clear();
    const absl::Status restored = ranks.Restore(files, "/c/step-00000007");
    if (restored.ok()) {
      EXPECT_EQ(ranks.Difference(), "");
    }
    WEFT_RETURN_IF_ERROR(restored);
    const auto saved = SavedCheckpoint::Open(files, "/c/step-00000007");
    WEFT_RETURN_IF_ERROR(saved.status());
    return saved->VerifyAll();
  }

  const MadeUpModel model_;
  SimFiles files_;
};

TEST_F(CheckpointDamage, EveryFlippedByteOfEveryFileIsFound) {
  ASSERT_TRUE(Look(files_).ok());
  size_t flips = 0;
  for (const std::string& path : files_.Paths()) {
    const size_t bytes = files_.Contents(path).size();
    for (size_t at = 0; at < bytes; ++at) {
      const auto bits = static_cast<uint8_t>(1u << at % 8);
      files_.Corrupt(path, at, bits);
      const absl::Status looked = Look(files_);
      EXPECT_EQ(ResultOf(looked), WEFT_CORRUPT) << path << " at " << at << ": " << looked;
      files_.Corrupt(path, at, bits);
      ++flips;
    }
  }
  EXPECT_TRUE(Look(files_).ok());
  EXPECT_GT(flips, 3000u);
}

TEST_F(CheckpointDamage, CutExtendedSwappedAndMissingFilesAreFound) {
  const std::vector<std::string> paths = files_.Paths();
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const size_t bytes = files_.Contents(path).size();
    for (const size_t left : {size_t{0}, size_t{1}, bytes / 2, bytes - 1}) {
      const std::unique_ptr<SimFiles> files = files_.Copy();
      files->Truncate(path, left);
      EXPECT_EQ(ResultOf(Look(*files)), WEFT_CORRUPT) << left;
    }
    const std::unique_ptr<SimFiles> longer = files_.Copy();
    longer->Extend(path, std::string(1, '\0'));
    EXPECT_EQ(ResultOf(Look(*longer)), WEFT_CORRUPT);
    const std::unique_ptr<SimFiles> without = files_.Copy();
    ASSERT_TRUE(without->Remove(path).ok());
    EXPECT_FALSE(Look(*without).ok());
    for (const std::string& other : paths) {
      if (other <= path) continue;
      const std::unique_ptr<SimFiles> swapped = files_.Copy();
      swapped->SwapFiles(path, other);
      EXPECT_FALSE(Look(*swapped).ok()) << other;
    }
  }
}

// Files of another checkpoint of the same model, each of them whole.
TEST_F(CheckpointDamage, FilesOfAnotherCheckpointAreFound) {
  const MadeUpModel other(2, 4);
  MadeUpRanks ranks(other, 2);
  const MadeUpSave save{.step = 7,
                        .job = 2,
                        .config = "[]\n",
                        .values = {{.name = kMadeUpValue, .bytes = MadeUpValue(0)}}};
  ASSERT_TRUE(ranks.Save(files_, "/d", save).ok());
  for (const char* const name :
       {"config.json", "done-00000.json", "done-00001.json", "rank-00000.safetensors",
        "rank-00001.safetensors", "values-00000.bin"}) {
    const std::unique_ptr<SimFiles> files = files_.Copy();
    files->SwapFiles(StrCat("/c/step-00000007/", name), StrCat("/d/step-00000007/", name));
    EXPECT_EQ(ResultOf(Look(*files)), WEFT_CORRUPT) << name;
  }
}

}  // namespace
}  // namespace weft::test::damage_test
