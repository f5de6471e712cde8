// What is written can be read, up to the last byte of each limit; what cannot be read is not written.
#include "shard/checkpoint/limits.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/caller_tensors.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/restore.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/snapshot.h"
#include "tests/shard/ranks.h"
#include "tests/sim/sim_files.h"
#include "tests/support/case_sample.h"

namespace weft::test::limits_test {
namespace {

using testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;

// Tensors of one element, "t.0" and so on, whose value is their number.
class ManyTensors {
 public:
  explicit ManyTensors(size_t count) : data_(count) {
    for (size_t i = 0; i < count; ++i) {
      data_[i] = static_cast<float>(i);
      tensors_.Add({.name = StrCat("t.", i), .shape = {}}, 0, 1, &data_[i]);
    }
  }

  StateSource* source() { return &tensors_; }

  std::vector<float>& data() { return data_; }

 private:
  std::vector<float> data_;
  CallerTensors tensors_;
};

// Writes what one rank has, and commits if it is the only one.
absl::Status Write(Files& files, const CheckpointPlace& place, StateSource* source,
                   std::vector<SavedValue> values) {
  std::vector<NamedSource> sources;
  if (source != nullptr) sources.push_back({"", source});
  WEFT_ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot(sources, std::move(values)));
  WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
  return WriteRank(files, place, snapshot);
}

absl::Status Commit(Files& files, const CheckpointPlace& place) {
  Committer committer(files, place);
  WEFT_ASSIGN_OR_RETURN(const bool complete, committer.Look());
  EXPECT_TRUE(complete);
  return committer.Commit("");
}

TEST(CheckpointLimits, AsManyTensorsAsThereMayBeAreSavedAndLoaded) {
  // A million take half a minute of a core.
  const size_t count = AllCasesWanted() && !kSampled ? kCheckpointTensorsMax : 1 << 16;
  SimFiles files;
  const CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7};
  ManyTensors from(count);
  const absl::Status written = Write(files, place, from.source(), {});
  ASSERT_TRUE(written.ok()) << written;
  const absl::Status committed = Commit(files, place);
  ASSERT_TRUE(committed.ok()) << committed;
  const auto saved = SavedCheckpoint::Open(files, place.path());
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->manifest().tensors.size(), count);
  const std::vector<float> expected = from.data();
  from.data().assign(count, -1);
  const std::vector<NamedSource> sources = {{"", from.source()}};
  ASSERT_TRUE(CheckFits(*saved, sources, WEFT_SHARD_STATE_ALL).ok());
  const absl::Status restored = Restore(*saved, sources, WEFT_SHARD_STATE_ALL);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_TRUE(from.data() == expected);
}

TEST(CheckpointLimits, OneTensorMoreIsRefusedBeforeAnythingIsWritten) {
  SimFiles files;
  const CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7};
  ManyTensors tensors(kCheckpointTensorsMax + 1);
  const absl::Status written = Write(files, place, tensors.source(), {});
  EXPECT_EQ(ResultOf(written), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(written.message()),
              HasSubstr("has 1048577 tensors; a checkpoint has up to 1048576"));
  EXPECT_THAT(files.Paths(), testing::ElementsAre("/c/step-00000001/job-0000000000000007"));
}

// The bytes of values were in the manifest, which then was one that no reader took, after the save had said that it was Ok.
TEST(CheckpointLimits, LargeValuesOfManyRanksAreSavedAndLoaded) {
  constexpr int kRanks = 7;
  const size_t bytes = kSampled ? kMiB : kCheckpointValueBytesMax;
  SimFiles files;
  CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7, .ranks = kRanks};
  for (place.rank = kRanks - 1;; --place.rank) {
    const auto tag = static_cast<char>('a' + place.rank);
    const absl::Status written =
        Write(files, place, nullptr,
              {{.name = "rng", .rank = place.rank, .bytes = std::string(bytes, tag)},
               {.name = "place", .rank = place.rank, .bytes = std::string(bytes - 1, tag)}});
    ASSERT_TRUE(written.ok()) << written;
    if (place.rank == 0) break;
  }
  const absl::Status committed = Commit(files, place);
  ASSERT_TRUE(committed.ok()) << committed;
  EXPECT_LT(files.Contents(place.PathOf(kManifestName)).size(), 4096u);
  const auto saved = SavedCheckpoint::Open(files, place.path());
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->manifest().values.size(), 2u * kRanks);
  for (const SavedValue& value : saved->manifest().values) {
    const auto read = saved->Value(value);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->size(), value.name == "rng" ? bytes : bytes - 1);
    EXPECT_EQ(read->find_first_not_of(static_cast<char>('a' + value.rank)), std::string::npos);
  }
}

TEST(CheckpointLimits, AValueIsInTheTextsOrInAFileWhateverItsSize) {
  for (const size_t bytes : {size_t{0}, kInlineValueBytesMax, kInlineValueBytesMax + 1}) {
    SimFiles files;
    const CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7};
    const std::string value(bytes, 'x');
    ASSERT_TRUE(Write(files, place, nullptr, {{.name = "v", .bytes = value}}).ok());
    ASSERT_TRUE(Commit(files, place).ok());
    const auto saved = SavedCheckpoint::Open(files, place.path());
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->manifest().values[0].place.has_value(), bytes > kInlineValueBytesMax);
    EXPECT_EQ(*saved->Value(saved->manifest().values[0]), value);
  }
}

TEST(CheckpointLimits, AValueThatIsTooLargeIsRefusedBeforeAnythingIsWritten) {
  SimFiles files;
  const CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7};
  const absl::Status written =
      Write(files, place, nullptr,
            {{.name = "v", .bytes = std::string(kCheckpointValueBytesMax + 1, 'x')}});
  EXPECT_EQ(ResultOf(written), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(written.message()), HasSubstr("value v has 16777217 bytes"));
  EXPECT_THAT(files.Paths(), testing::ElementsAre("/c/step-00000001/job-0000000000000007"));
}

// Ranks that are each within the limits: the manifest of all is read before it is written.
TEST(CheckpointLimits, WhatRanksHaveTogetherIsReadBeforeItIsCommitted) {
  SimFiles files;
  CheckpointPlace place{.root = "/c", .name = {.step = 1}, .job = 7, .ranks = 2};
  for (place.rank = 1;; --place.rank) {
    // Of one rank each, and of the same name.
    ASSERT_TRUE(Write(files, place, nullptr, {{.name = "v", .bytes = "x"}}).ok());
    if (place.rank == 0) break;
  }
  const absl::Status committed = Commit(files, place);
  EXPECT_EQ(ResultOf(committed), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(committed.message()), HasSubstr("two values called v"));
  EXPECT_FALSE(SavedCheckpoint::Open(files, place.path()).ok());
}

}  // namespace
}  // namespace weft::test::limits_test
