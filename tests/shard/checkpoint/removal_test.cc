// What is removed, when, and what is not: files of the format alone, no half of a checkpoint, nothing behind a symbolic link, and what
// failed saves have left before the next one needs the room.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::vector<std::string> Names(Files& files, const std::string& path) {
  const auto names = files.List(path);
  return names.ok() ? *names : std::vector<std::string>();
}

absl::Status SaveSteps(MadeUpRanks& ranks, Files& files, int64_t first, int64_t last,
                       int64_t keep) {
  for (int64_t step = first; step <= last; ++step) {
    WEFT_RETURN_IF_ERROR(ranks.Save(files, "/c", {.step = step, .retention = {.last = keep}}));
  }
  return absl::OkStatus();
}

bool IsWhole(Files& files, const std::string& path) {
  const auto saved = SavedCheckpoint::Open(files, path);
  return saved.ok() && saved->VerifyAll().ok();
}

TEST(CheckpointNames, AreToldFromAllOthers) {
  for (const std::string name :
       {"manifest.json", "config.json", "pinned", "rank-00000.safetensors",
        "rank-65536.safetensors", "rank-123456.safetensors", "done-00012.json", "failed-00003",
        "job-0123456789abcdef", "manifest.json.new", "done-00012.json.new", "failed-00003.new",
        "config.json.new"}) {
    EXPECT_TRUE(IsCheckpointFile(name)) << name;
  }
  for (const std::string name :
       {"", "notes.txt", ".new", "manifest.json.bak", "rank-0.safetensors", "rank-00000.bin",
        "rank-00000.safetensors.old", "done-1.json", "done-00001.jsonl", "failed-", "failed-1",
        "job-", "job-0123456789ABCDEF", "job-0123456789abcdef0", "job-0123456789abcde",
        "Manifest.json", "rank--0001.safetensors", "pinned.txt", ".nfs00000001"}) {
    EXPECT_FALSE(IsCheckpointFile(name)) << name;
  }
}

// Whatever else somebody has put there, a checkpoint is kept with it, whole, and the others go.
TEST(CheckpointRemoval, OneThatCannotBeRemovedStaysWholeAndDoesNotKeepTheOthers) {
  const MadeUpModel model(1);
  for (const bool directory : {false, true}) {
    SimFiles files;
    MadeUpRanks ranks(model, 2);
    ASSERT_TRUE(SaveSteps(ranks, files, 1, 3, 0).ok());
    if (directory) {
      ASSERT_TRUE(files.MakeDirectory("/c/step-00000001/eval").ok());
    } else {
      ASSERT_TRUE(WriteFileAtomically(files, "/c/step-00000001/notes.txt", "mine").ok());
    }
    testing::internal::CaptureStderr();
    ASSERT_TRUE(SaveSteps(ranks, files, 4, 6, 1).ok());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000001", "step-00000006"));
    EXPECT_TRUE(IsWhole(files, "/c/step-00000001"));
    EXPECT_THAT(Names(files, "/c/step-00000001"), Contains(directory ? "eval" : "notes.txt"));
    EXPECT_THAT(said, HasSubstr("/c/step-00000001 has "));
  }
}

// Said once by each job, not at each save.
TEST(CheckpointRemoval, AWarningIsGivenOnce) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 1, 0).ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/c/step-00000001/notes.txt", "mine").ok());
  Keeper keeper(files, "/c", {.last = 1}, nullptr);
  testing::internal::CaptureStderr();
  for (int64_t step = 2; step < 6; ++step) {
    ASSERT_TRUE(SaveSteps(ranks, files, step, step, 0).ok());
    keeper.EndSave({.step = step});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("notes.txt");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("warning", first), std::string::npos) << said;
}

// A directory that has the name of a file of the format is none.
TEST(CheckpointRemoval, NothingIsRemovedOfACheckpointWhenADirectoryIsInIt) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 2, 0).ok());
  ASSERT_TRUE(files.MakeDirectory("/c/step-00000001/rank-00007.safetensors").ok());
  const absl::Status removed = RemoveCheckpoint(files, "/c", {.step = 1});
  EXPECT_EQ(ResultOf(removed), WEFT_BAD_STATE) << removed;
  EXPECT_TRUE(IsWhole(files, "/c/step-00000001"));
}

// The files of the format take the room; what is somebody's stays.
TEST(CheckpointRemoval, OfRemainsFilesOfTheFormatGoAlone) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 1, 0).ok());
  ASSERT_TRUE(files.Remove("/c/step-00000001/manifest.json").ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/c/step-00000001/notes.txt", "mine").ok());
  ASSERT_TRUE(SaveSteps(ranks, files, 2, 2, 0).ok());
  EXPECT_THAT(Names(files, "/c/step-00000001"), ElementsAre("notes.txt"));
  ASSERT_TRUE(files.Remove("/c/step-00000001/notes.txt").ok());
  ASSERT_TRUE(SaveSteps(ranks, files, 3, 3, 0).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000002", "step-00000003"));
}

TEST(CheckpointRemoval, APinnedOneStays) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 2);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 1, 0).ok());
  ASSERT_TRUE(PinCheckpoint(files, "/c/step-00000001").ok());
  ASSERT_TRUE(PinCheckpoint(files, "/c/step-00000001").ok()) << "it is pinned already";
  testing::internal::CaptureStderr();
  ASSERT_TRUE(SaveSteps(ranks, files, 2, 5, 1).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000001", "step-00000005"));
  EXPECT_TRUE(IsWhole(files, "/c/step-00000001"));
  EXPECT_EQ(ResultOf(RemoveCheckpoint(files, "/c", {.step = 1})), WEFT_BAD_STATE);
  ASSERT_TRUE(UnpinCheckpoint(files, "/c/step-00000001").ok());
  ASSERT_TRUE(UnpinCheckpoint(files, "/c/step-00000001").ok()) << "it is not pinned any more";
  ASSERT_TRUE(SaveSteps(ranks, files, 6, 6, 1).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000006"));
  EXPECT_TRUE(absl::IsNotFound(PinCheckpoint(files, "/c/step-00000001")));
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000006"));
}

// In a real directory: a simulated one has no links.
TEST(CheckpointRemoval, WhatALinkLeadsToIsNotTouched) {
  namespace fs = std::filesystem;
  std::string directory = testing::TempDir() + "/weft_removal_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string root = directory + "/c";
  const MadeUpModel model(1);
  MadeUpRanks ranks(model, 1);
  for (int64_t step = 1; step <= 2; ++step)
    ASSERT_TRUE(ranks.Save(SystemFiles(), root, {.step = step}).ok());
  // One that was moved elsewhere, somebody's folder, and a file of a checkpoint that is a link.
  fs::rename(root + "/step-00000001", directory + "/moved");
  fs::create_directory_symlink("../moved", root + "/step-00000001");
  fs::create_directory(directory + "/thesis");
  std::ofstream(directory + "/thesis/rank-00000.safetensors") << "mine";
  fs::create_directory_symlink("../thesis", root + "/step-00000000");
  fs::rename(root + "/step-00000002/rank-00000.safetensors", directory + "/big");
  fs::create_symlink("../../big", root + "/step-00000002/rank-00000.safetensors");
  testing::internal::CaptureStderr();
  ASSERT_TRUE(ranks.Save(SystemFiles(), root, {.step = 3, .retention = {.last = 1}}).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("step-00000001 is a symbolic link"));
  EXPECT_THAT(Names(SystemFiles(), root),
              ElementsAre("step-00000000", "step-00000001", "step-00000003"));
  EXPECT_TRUE(IsWhole(SystemFiles(), directory + "/moved"));
  EXPECT_THAT(Names(SystemFiles(), directory + "/thesis"), ElementsAre("rank-00000.safetensors"));
  EXPECT_TRUE(fs::exists(directory + "/big"));
  fs::remove_all(directory);
}

// Whatever call it ends in, nobody takes the rest for a checkpoint, and the next save removes it.
TEST(CheckpointRemoval, ThatIsCutOffLeavesAWholeOneOrNone) {
  const MadeUpModel model(1);
  SimFiles before;
  MadeUpRanks ranks(model, 2);
  ASSERT_TRUE(SaveSteps(ranks, before, 1, 2, 0).ok());
  for (const bool dies : {false, true}) {
    bool struck = true;
    for (int k = 1; struck; ++k) {
      const std::unique_ptr<SimFiles> files = before.Copy();
      if (dies) {
        files->DieAt(k);
      } else {
        files->FailAt(k, EIO);
      }
      const absl::Status removed = RemoveCheckpoint(*files, "/c", {.step = 1});
      struck = files->struck();
      SCOPED_TRACE(files->what());
      EXPECT_NE(removed.ok(), struck) << removed;
      const auto look = [&](Files& left) {
        const auto all = ListCheckpoints(left, "/c");
        ASSERT_TRUE(all.ok()) << all.status();
        for (const CatalogEntry& entry : *all) {
          if (entry.committed)
            EXPECT_TRUE(IsWhole(left, JoinPath("/c", DirectoryName(entry.name))));
        }
      };
      files->ForEachCrashState(50, static_cast<uint64_t>(k),
                               [&](SimFiles& left, const std::string& what) {
                                 SCOPED_TRACE(what);
                                 look(left);
                               });
      files->Revive();
      look(*files);
      ASSERT_TRUE(SaveSteps(ranks, *files, 3, 3, 1).ok());
      EXPECT_THAT(Names(*files, "/c"), ElementsAre("step-00000003"));
      ASSERT_FALSE(HasFailure());
    }
  }
}

// ---- room ---------------------------------------------------------------------------------------

// As of a job that was killed in the middle of a save, and is started again.
TEST(CheckpointRoom, RemainsGoBeforeTheNextSaveNeedsTheRoom) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 1, 1).ok());
  const uint64_t one = files.bytes();
  ASSERT_TRUE(SaveSteps(ranks, files, 2, 2, 0).ok());
  ASSERT_TRUE(files.Remove("/c/step-00000002/manifest.json").ok());
  files.SetRoom(2 * one + one / 2);
  const absl::Status saved =
      ranks.Save(files, "/c", {.step = 2, .run = 1, .retention = {.last = 1}});
  ASSERT_TRUE(saved.ok()) << saved;
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000002.r1"));
}

// Also what the save before could not remove any more.
TEST(CheckpointRoom, WhatIsOutdatedGoesBeforeTheNextSaveNeedsTheRoom) {
  const MadeUpModel model(1);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(SaveSteps(ranks, files, 1, 2, 0).ok());
  Keeper keeper(files, "/c", {.last = 1}, nullptr);
  // Nothing of others is removed before there is a newer one that is known to be whole.
  ASSERT_TRUE(keeper.BeginSave({.run = 1, .step = 3}).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000001", "step-00000002"));
  // The later one may be damaged, as the earlier one was loaded.
  keeper.KnowWhole({.step = 1});
  ASSERT_TRUE(keeper.BeginSave({.run = 1, .step = 3}).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000001", "step-00000002"));
  keeper.KnowWhole({.step = 2});
  ASSERT_TRUE(keeper.BeginSave({.run = 1, .step = 3}).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000002"));
}

// A save that fails leaves a few words, whichever of its ranks it is that fails, and in whichever call.
TEST(CheckpointRoom, AFailedSaveTakesNoRoom) {
  const MadeUpModel model(1);
  SimFiles before;
  MadeUpRanks ranks(model, 2);
  ASSERT_TRUE(SaveSteps(ranks, before, 1, 1, 1).ok());
  const uint64_t one = before.bytes();
  bool struck = true;
  for (int k = 1; struck; ++k) {
    const std::unique_ptr<SimFiles> files = before.Copy();
    files->FailAt(k, ENOSPC);
    const absl::Status saved = SaveSteps(ranks, *files, 2, 2, 1);
    struck = files->struck();
    if (saved.ok()) continue;
    const auto all = ListCheckpoints(*files, "/c");
    ASSERT_TRUE(all.ok());
    // It may be there, or come to be there, once its manifest was about to be written.
    const bool may_be_there = files->what().find("manifest.json") != std::string::npos;
    if (may_be_there || all->back().committed) continue;
    EXPECT_LT(files->bytes(), one + 1000) << files->what() << ": " << saved;
  }
}

// A disk with room for two checkpoints and a little, one of which is kept: with saves that fail or whose process dies, the next one is made.
TEST(CheckpointRoom, ADiskForTwoWorksForEver) {
  const MadeUpModel model(1);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    SimFiles files;
    MadeUpRanks ranks(model, 1);
    ASSERT_TRUE(ranks.Save(files, "/c", {.step = 1}).ok());
    files.SetRoom(2 * files.bytes() + files.bytes() / 4);
    int64_t run = 0;
    for (int64_t step = 2; step < 40; ++step) {
      const int call = 1 + static_cast<int>(random() % 60);
      const bool dies = random() % 2 == 0;
      if (dies) {
        files.DieAt(call);
      } else {
        files.FailAt(call, EIO);
      }
      const absl::Status struck =
          ranks.Save(files, "/c", {.step = step, .run = run, .job = 1, .retention = {.last = 1}});
      const std::string what = files.what();
      files.Revive();
      // Of a job that is started again; what it loads it knows to be whole.
      if (dies) ++run;
      const auto all = ListCheckpoints(files, "/c");
      ASSERT_TRUE(all.ok());
      Keeper keeper(files, "/c", {.last = 1}, nullptr);
      for (const CatalogEntry& entry : *all) {
        if (entry.committed) keeper.KnowWhole(entry.name);
      }
      ASSERT_TRUE(keeper.BeginSave({.run = run, .step = ++step}).ok());
      const absl::Status saved =
          ranks.Save(files, "/c", {.step = step, .run = run, .job = 1, .retention = {.last = 1}});
      ASSERT_TRUE(saved.ok()) << what << ": " << saved;
      EXPECT_THAT(Names(files, "/c"), ElementsAre(DirectoryName({.run = run, .step = step})));
    }
  }
}

}  // namespace
}  // namespace weft::test
