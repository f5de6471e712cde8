// What ranks save together, any number of ranks has again, bit for bit.
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/save_run.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test::save_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 8};

std::vector<std::string> Names(Files& files, const std::string& path) {
  const auto names = files.List(path);
  return names.ok() ? *names : std::vector<std::string>();
}

TEST(CheckpointSave, AnyNumberOfRanksLoadsWhatAnyNumberSaved) {
  const MadeUpModel model(1);
  for (const int savers : kRankCounts) {
    SimFiles files;
    MadeUpRanks from(model, savers);
    ASSERT_TRUE(from.Save(files, "/c", {.step = 7}).ok());
    for (const int loaders : kRankCounts) {
      for (const size_t overlap : {0, 13}) {
        SCOPED_TRACE(StrCat(savers, " to ", loaders, " overlap ", overlap));
        MadeUpRanks to(model, loaders, overlap);
        to.Clear();
        ASSERT_NE(to.Difference(), "");
        const absl::Status restored = to.Restore(files, "/c/step-00000007");
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_EQ(to.Difference(), "");
      }
    }
  }
}

// Chunks that begin and end within tensors, and tensors of several chunks.
TEST(CheckpointSave, LoadsTensorsOfManyChunks) {
  const MadeUpModel model(2, 700'001);
  SimFiles files;
  MadeUpRanks from(model, 3);
  ASSERT_TRUE(from.Save(files, "/c", {.step = 7}).ok());
  for (const int loaders : {1, 2, 3}) {
    MadeUpRanks to(model, loaders, 100'000);
    to.Clear();
    const absl::Status restored = to.Restore(files, "/c/step-00000007");
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(to.Difference(), "");
  }
}

TEST(CheckpointSave, ValuesAloneLeaveTheRestAsItIs) {
  const MadeUpModel model(3);
  SimFiles files;
  MadeUpRanks from(model, 2);
  ASSERT_TRUE(from.Save(files, "/c", {.step = 7}).ok());
  MadeUpRanks to(model, 3);
  to.Clear();
  ASSERT_TRUE(to.Restore(files, "/c/step-00000007", WEFT_SHARD_STATE_VALUES).ok());
  EXPECT_EQ(to.Difference(WEFT_SHARD_STATE_VALUES), "");
  EXPECT_THAT(to.Difference(), HasSubstr("main"));
}

TEST(CheckpointSave, TheDirectoryHasWhatTheFormatSays) {
  const MadeUpModel model(4);
  SimFiles files;
  MadeUpRanks ranks(model, 2);
  ASSERT_TRUE(ranks
                  .Save(files, "/c",
                        {.step = 7,
                         .run = 2,
                         .config = "{\"a\":1}\n",
                         .values = {{.name = "v", .bytes = "x"},
                                    {.name = kMadeUpValue, .rank = 1, .bytes = MadeUpValue(1)}}})
                  .ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000007.r2"));
  EXPECT_THAT(Names(files, "/c/step-00000007.r2"),
              ElementsAre("config.json", "done-00000.json", "done-00001.json", "manifest.json",
                          "rank-00000.safetensors", "rank-00001.safetensors", "values-00001.bin"));
  EXPECT_EQ(files.Contents("/c/step-00000007.r2/values-00001.bin"), MadeUpValue(1));
  const auto saved = SavedCheckpoint::Open(files, "/c/step-00000007.r2");
  ASSERT_TRUE(saved.ok());
  EXPECT_TRUE(saved->VerifyAll().ok());
  EXPECT_EQ(saved->manifest().values[0].bytes, "x");
}

TEST(CheckpointSave, OutdatedOnesGoWhenANewOneIsThere) {
  const MadeUpModel model(5);
  SimFiles files;
  MadeUpRanks ranks(model, 2);
  for (int64_t step = 1; step <= 7; ++step)
    ASSERT_TRUE(ranks.Save(files, "/c", {.step = step, .retention = {.last = 2, .every = 3}}).ok());
  EXPECT_THAT(Names(files, "/c"), ElementsAre("step-00000003", "step-00000006", "step-00000007"));
}

// It may be a checkpoint that counts: its number is taken, it is not removed, and who loads is told that it was passed over.
TEST(CheckpointSave, OneThatCannotBeLookedAtIsNeitherForgottenNorRemoved) {
  const MadeUpModel model(9);
  SimFiles files;
  MadeUpRanks ranks(model, 1);
  for (int64_t run = 0; run < 2; ++run)
    ASSERT_TRUE(ranks.Save(files, "/c", {.step = 5, .run = run}).ok());
  files.FailAt(3, EIO, SimFiles::Effect::kNone);  // the second of the two
  auto all = ListCheckpoints(files, "/c");
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_TRUE((*all)[0].committed);
  EXPECT_FALSE((*all)[1].committed);
  EXPECT_TRUE((*all)[1].unreadable);
  EXPECT_EQ(NextRun(*all), 2);
  const CheckpointName latest{.run = 2, .step = 1};
  all->push_back({.name = latest, .committed = true});
  EXPECT_THAT(Outdated(*all, latest, {.last = 1}),
              ElementsAre(CheckpointName{.run = 0, .step = 5}));
}

TEST(CheckpointSave, ARankThatFailsLeavesTheOneBeforeAndSaysSo) {
  const MadeUpModel model(6);
  SimFiles files;
  MadeUpRanks ranks(model, 3);
  ASSERT_TRUE(ranks.Save(files, "/c", {.step = 1}).ok());
  // Something stands where rank 1 is to write.
  ASSERT_TRUE(files.MakeDirectory("/c/step-00000002").ok());
  ASSERT_TRUE(files.MakeDirectory("/c/step-00000002/rank-00001.safetensors").ok());
  const absl::Status saved = ranks.Save(files, "/c", {.step = 2});
  EXPECT_FALSE(saved.ok());
  const auto all = ListCheckpoints(files, "/c");
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE((*all)[0].committed);
  EXPECT_FALSE((*all)[1].committed);
  EXPECT_THAT(Names(files, "/c/step-00000002"), Contains("failed-00001"));
  EXPECT_THAT(Names(files, "/c/step-00000002"), Contains("failed-00000"));
  // The next one is made, and takes the remains along.
  ASSERT_TRUE(files.RemoveDirectory("/c/step-00000002/rank-00001.safetensors").ok());
  ASSERT_TRUE(ranks.Save(files, "/c", {.step = 3}).ok());
  EXPECT_THAT(Names(files, "/c"), Not(Contains("step-00000002")));
}

TEST(CheckpointSave, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  const MadeUpModel model(7);
  SimFiles files;
  MadeUpRanks ranks(model, 3);
  ranks.states[1] = std::make_unique<MadeUpState>(model, 1, 3, 0);
  // A directory that is not that of the others: what rank 1 writes is not seen.
  MadeUpRanks alone(model, 3);
  alone.states.resize(1);
  absl::Status saved = alone.Save(files, "/c", {.step = 1});
  EXPECT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.message()), HasSubstr("no rank has written element"));
}

// What a rank of three does, whose group has ended by the loss of rank 2, or does not know of it yet.
class LosingPatience : public Patience {
 public:
  explicit LosingPatience(absl::Status over) : over_(std::move(over)) {}

  int64_t NowNs() override { return now_ns_ += 1'000'000; }

  void PauseUntil(int64_t time_ns) override { now_ns_ = time_ns; }

  absl::Status Over() override { return over_; }

 private:
  const absl::Status over_;
  int64_t now_ns_ = 0;
};

// Whoever knows first: no rank that could write is one that could not, neither for itself nor for the others.
TEST(CheckpointSave, TheLossOfARankIsTheCauseOnAllRanks) {
  const MadeUpModel model(7);
  const absl::Status lost =
      MakeError(WEFT_PEER_LOST, {.rank = 2, .pid = 4711, .signal = 9}, "rank 2 is lost");
  const auto save = [&](Files& files, int rank, const absl::Status& over) {
    MadeUpState state(model, rank, 3, 0);
    absl::StatusOr<Snapshot> snapshot = TakeSnapshot({{"", &state}}, {});
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    LosingPatience patience(over);
    return RunSave(files, patience,
                   {.root = "/c", .name = {.step = 1}, .job = 1, .rank = rank, .ranks = 3},
                   *snapshot, {.timeout_ns = 3'600'000'000'000});
  };
  const auto expect_loss = [](const absl::Status& saved) {
    EXPECT_EQ(ResultOf(saved), WEFT_ABORTED) << saved;
    const ErrorFields fields = FieldsOf(saved);
    EXPECT_EQ(fields.rank, 2);
    EXPECT_EQ(fields.pid, 4711);
    EXPECT_EQ(fields.signal, 9);
    EXPECT_THAT(std::string(saved.message()), HasSubstr("rank 2 is lost"));
  };
  for (const int first : {0, 1}) {
    SimFiles files;
    expect_loss(save(files, first, lost));
    expect_loss(save(files, 1 - first, absl::OkStatus()));  // which is told by the first
  }
}

TEST(CheckpointSave, AnotherModelIsRefusedByTheFirstTensorThatDiffers) {
  const MadeUpModel model(8);
  SimFiles files;
  MadeUpRanks from(model, 2);
  ASSERT_TRUE(from.Save(files, "/c", {.step = 7}).ok());
  const auto complaint = [&](const MadeUpModel& other) {
    MadeUpRanks to(other, 2);
    const absl::Status restored = to.Restore(files, "/c/step-00000007");
    EXPECT_EQ(ResultOf(restored), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(to.Difference(), "") << "something was written";
    return std::string(restored.message());
  };
  MadeUpModel other(8);
  other.tensors[1].name = "blocks.0.wait";
  EXPECT_THAT(complaint(other), HasSubstr("no tensor blocks.0.wait, of shape [7, 1000]"));
  other = MadeUpModel(8);
  other.tensors[1].shape = {1000, 7};
  EXPECT_THAT(
      complaint(other),
      HasSubstr(
          "blocks.0.weight with shape [7, 1000], and this model has it with shape [1000, 7]"));
  other = MadeUpModel(8);
  other.tensors[0].dtype = WEFT_FLOAT16;
  EXPECT_THAT(complaint(other), HasSubstr("embed.weight as BF16, and this model has it as F16"));
  other = MadeUpModel(8);
  other.tensors[3].dtype = WEFT_UINT8;
  EXPECT_THAT(complaint(other), HasSubstr("blocks.0.mask as BOOL"));
  other = MadeUpModel(8);
  other.tensors[3].kinds |= 1u << WEFT_SHARD_STATE_MOMENT1;
  other.contents[3][WEFT_SHARD_STATE_MOMENT1] = std::string(20, 'x');
  EXPECT_THAT(complaint(other), HasSubstr("has no moment1 of tensor blocks.0.mask"));
  other = MadeUpModel(8);
  other.tensors[1].kinds &= ~(1u << WEFT_SHARD_STATE_MOMENT2);
  other.contents[1][WEFT_SHARD_STATE_MOMENT2].clear();
  EXPECT_THAT(complaint(other),
              HasSubstr("has a moment2 of tensor blocks.0.weight, which this program has not"));
}

}  // namespace
}  // namespace weft::test::save_test
