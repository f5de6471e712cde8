// On which threads saves are carried out: the caller's with its own priority, or one of weft's, which is low unless the next update waits
// for it.
#include "shard/checkpoint/saver.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include "base/status.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test::saver_test {
namespace {

constexpr int kLowestNice = 19;

// Of the calling thread.
int NiceValue() {
  return getpriority(PRIO_PROCESS, 0);
}

// Notes the priority of the thread that creates files.
class NotingFiles : public SimFiles {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t bytes_expected) override {
    nice_value_ = NiceValue();
    return SimFiles::Create(path, bytes_expected);
  }

  // Once the save has ended.
  int nice_value() const { return nice_value_; }

 private:
  int nice_value_ = -100;
};

class CheckpointSaver : public testing::Test {
 protected:
  CheckpointSaver() : model_(1, 300'001), ranks_(model_, 1) {}

  CheckpointPlace NextPlace() {
    return {.root = "/c", .name = {.step = ++step_}, .job = 7, .rank = 0, .ranks = 1};
  }

  Snapshot Take() {
    absl::StatusOr<Snapshot> snapshot = TakeSnapshot({{"", ranks_.states[0].get()}}, {});
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return *std::move(snapshot);
  }

  absl::Status InBackground(Snapshot snapshot) {
    WEFT_RETURN_IF_ERROR(saver_.Start(NextPlace(), std::move(snapshot), kSettings));
    return saver_.WaitUntil(std::numeric_limits<int64_t>::max()).status();
  }

  const SaveSettings kSettings{.timeout_ns = 60'000'000'000};
  const MadeUpModel model_;
  MadeUpRanks ranks_;
  NotingFiles files_;
  Saver saver_{files_, [] {
                 return absl::OkStatus();
               }};
  int64_t step_ = 0;
};

TEST_F(CheckpointSaver, LowersThePriorityOfItsThreadAloneAndOfNoneThatIsWaitedFor) {
  const int mine = NiceValue();
  ASSERT_EQ(InBackground(Take()), absl::OkStatus());
  EXPECT_EQ(files_.nice_value(), std::min(mine + 10, kLowestNice));

  Snapshot held = Take();
  held.holds.push_back(std::make_shared<int>(0));
  ASSERT_EQ(InBackground(std::move(held)), absl::OkStatus());
  EXPECT_EQ(files_.nice_value(), mine);

  ASSERT_EQ(InBackground(Take()), absl::OkStatus());
  ASSERT_EQ(saver_.Run(NextPlace(), Take(), kSettings), absl::OkStatus());
  EXPECT_EQ(files_.nice_value(), mine);
  EXPECT_EQ(NiceValue(), mine);
}

// Also of a save that has failed: whoever knows that it is over may change the state.
TEST_F(CheckpointSaver, WhatWasHeldIsLetGoWhenTheSaveHasEnded) {
  for (const bool fails : {false, true}) {
    Snapshot held = Take();
    const auto hold = std::make_shared<int>(0);
    held.holds.push_back(hold);
    if (fails) files_.FailFrom(1, EIO);
    EXPECT_EQ(InBackground(std::move(held)).ok(), !fails);
    EXPECT_EQ(hold.use_count(), 1);
  }
}

// In a real directory: copies lie in memory as their bytes do in the file, to be written past the page cache.
TEST_F(CheckpointSaver, WhatIsCopiedIsWrittenAsItWas) {
  std::string root = testing::TempDir() + "/weft_saver_XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  {
    Saver saver(SystemFiles(), [] { return absl::OkStatus(); });
    for (const std::string name : {"", "x", "four"}) {
      Snapshot snapshot = Take();
      // The header's length is another one each time.
      snapshot.entries[0].name += name;
      CheckpointPlace place = NextPlace();
      place.root = root;
      ASSERT_EQ(saver.Start(place, snapshot, kSettings), absl::OkStatus());
      ASSERT_TRUE(saver.WaitUntil(std::numeric_limits<int64_t>::max()).ok());
      const auto saved = SavedCheckpoint::Open(SystemFiles(), place.path());
      ASSERT_TRUE(saved.ok()) << saved.status();
      ASSERT_TRUE(saved->VerifyAll().ok());
      const auto file =
          ReadWholeFile(SystemFiles(), place.PathOf(TensorFileName(0)), size_t{1} << 30);
      ASSERT_TRUE(file.ok()) << file.status();
      const size_t header_bytes = file->size() - snapshot.data_bytes();
      for (size_t i = 0; i < snapshot.entries.size(); ++i) {
        const SafetensorsEntry& entry = snapshot.entries[i];
        EXPECT_EQ(std::memcmp(file->data() + header_bytes + entry.begin, snapshot.bytes[i].data,
                              entry.end - entry.begin),
                  0)
            << entry.name;
      }
    }
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weft::test::saver_test
