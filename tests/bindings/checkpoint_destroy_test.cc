// A context that is destroyed while a save in the background reads it: the call waits, and the save ends well.
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bindings/checkpoint_calls.h"
#include "tests/bindings/checkpoint_model.h"
#include "tests/bindings/interrupt_check.h"
#include "tests/bindings/local_threads.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kRows = 300;  // of which each rank has some
constexpr std::chrono::seconds kPatience{60};

// A disk that stands still while it is closed: writers wait before they have written, and so read, anything.
class Disk {
 public:
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = false;
    writers_ = 0;
  }

  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  bool open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }

  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++writers_;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [&] { return open_; });
  }

  // Until so many are waiting.
  bool AwaitWriters(int writers) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return writers_ >= writers; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int writers_ = 0;
};

Disk& TheDisk() {
  static Disk disk;
  return disk;
}

}  // namespace
}  // namespace weft::test

// In the place of libc's: the first call for a file of a checkpoint that is to be written.
extern "C" __attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t offset,
                                                                off_t bytes) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  if (path.extension() == ".safetensors") weft::test::TheDisk().Pass();
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace weft::test {
namespace {

class CheckpointDestroy : public CheckpointFolder {
 protected:
  ~CheckpointDestroy() override { TheDisk().Open(); }

  // Of a model whose optimizer state is read where it is, as it is offloaded or the save is in place.
  std::unique_ptr<CheckpointModel> MakeModel(weft_group_t group, bool offloaded) const {
    weft_shard_offload_t offload = {};
    offload.struct_size = sizeof(offload);
    offload.directory = folder_.c_str();
    weft_shard_config_t config = {};
    config.struct_size = sizeof(config);
    config.offload = offloaded ? &offload : nullptr;
    return std::make_unique<CheckpointModel>(group, WEFT_SHARD_FULL_SHARD, kRows, &config);
  }

  // What it has after `steps`; the disk is closed then, and a save begun.
  static std::vector<float> TrainAndSave(weft_group_t group, const CheckpointModel& model,
                                         weft_checkpoint_t checkpoint, int steps) {
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    for (int step = 1; step <= steps; ++step)
      model.Step(step);
    std::vector<float> values = model.Read();
    int rank = -1;
    EXPECT_EQ(weft_group_rank(group, &rank), WEFT_SUCCESS);
    if (rank == 0) TheDisk().Close();
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(Save(checkpoint, steps, /*background=*/true, /*in_place=*/true), WEFT_SUCCESS)
        << weft_last_error();
    return values;
  }
};

TEST_F(CheckpointDestroy, WaitsForASaveThatReadsTheContext) {
  for (const bool offloaded : {false, true}) {
    SCOPED_TRACE(offloaded);
    const std::string directory = Directory() + (offloaded ? "-offloaded" : "");
    std::vector<float> expected;
    OnLocalRanks(kRanks, [&](int rank, weft_group_t group) {
      const auto model = MakeModel(group, offloaded);
      for (int step = 1; step <= 4; ++step)
        model->Step(step);
      const std::vector<float> values = model->Read();
      if (rank == 0) expected = values;
    });
    OnLocalRanks(kRanks, [&](int rank, weft_group_t group) {
      auto model = MakeModel(group, offloaded);
      const weft_checkpoint_t checkpoint = CreateCheckpoint(group, directory);
      TrainAndSave(group, *model, checkpoint, 2);
      std::thread disk;
      if (rank == 0) {
        disk = std::thread([] {
          EXPECT_TRUE(TheDisk().AwaitWriters(kRanks));
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          TheDisk().Open();
        });
      }
      model.reset();
      EXPECT_TRUE(TheDisk().open()) << "destroyed though a save was reading it";
      EXPECT_EQ(weft_checkpoint_wait(checkpoint, 0), WEFT_SUCCESS) << weft_last_error();
      // There is nothing any more that it could save or load.
      EXPECT_EQ(Save(checkpoint, 3), WEFT_BAD_STATE);
      EXPECT_THAT(weft_last_error(), HasSubstr("context 0 of those that were added was destroyed"));
      EXPECT_EQ(Load(checkpoint), WEFT_BAD_STATE);
      EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
      if (rank == 0) disk.join();
    });
    OnLocalRanks(kRanks, [&](int, weft_group_t group) {
      const auto model = MakeModel(group, offloaded);
      const weft_checkpoint_t checkpoint = CreateCheckpoint(group, directory);
      EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model->context), WEFT_SUCCESS);
      EXPECT_EQ(Loaded(checkpoint).step, 2);
      model->Step(3);
      model->Step(4);
      EXPECT_EQ(model->Read(), expected);
      EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
    });
  }
}

// Who has left a step has done so before it waits for a disk.
TEST_F(CheckpointDestroy, AbortsItsStepBeforeItWaits) {
  std::mutex mutex;
  int told = 0;
  OnLocalRanks(kRanks, [&](int rank, weft_group_t group) {
    auto model = MakeModel(group, /*offloaded=*/false);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    TrainAndSave(group, *model, checkpoint, 2);
    EXPECT_TRUE(TheDisk().AwaitWriters(kRanks));
    if (rank == kRanks - 1) {
      EXPECT_EQ(StepBegin(model->context), WEFT_SUCCESS);
    } else {
      EXPECT_EQ(model->BeginForward(), WEFT_ABORTED);
      EXPECT_THAT(weft_last_error(), HasSubstr("rank 2 aborted step 3: its context was destroyed"));
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_FALSE(TheDisk().open());
      if (++told == kRanks - 1) TheDisk().Open();
    }
    model.reset();
    EXPECT_TRUE(TheDisk().open());
    // The group has ended, so that all parts need not have been waited for; but each was written.
    (void)weft_checkpoint_wait(checkpoint, 0);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

TEST_F(CheckpointDestroy, AnUpdateThatWaitsForADiskIsInterruptedOnAllRanks) {
  std::mutex mutex;
  int told = 0;
  OnLocalRanks(kRanks, [&](int rank, weft_group_t group) {
    auto model = MakeModel(group, /*offloaded=*/false);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    TrainAndSave(group, *model, checkpoint, 2);
    EXPECT_EQ(StepBegin(model->context), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(model->context, 0, 1), WEFT_SUCCESS);
    if (rank == 0) {
      Check check{.at = 300};  // some may be asked while it waits for ranks
      const Asking asking(&check);
      EXPECT_EQ(UpdateAndEndStep(model->context, 0.01), WEFT_INTERRUPTED);
    } else {
      EXPECT_EQ(UpdateAndEndStep(model->context, 0.01), WEFT_ABORTED);
      EXPECT_TRUE(LastErrorHas("rank 0")) << weft_last_error();
    }
    EXPECT_TRUE(
        LastErrorHas("waiting to update optimizer state: waiting for a checkpoint to have "
                     "read this state: interrupted"))
        << weft_last_error();
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_ABORTED);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_FALSE(TheDisk().open());
      if (++told == kRanks) TheDisk().Open();
    }
    model.reset();
    (void)weft_checkpoint_wait(checkpoint, 0);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

TEST_F(CheckpointDestroy, FreesNothingWhileADiskHangs) {
  OnLocalRanks(kRanks, [&](int, weft_group_t group) {
    const auto model = MakeModel(group, /*offloaded=*/false);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory(), 0, 2'000'000'000);
    const std::vector<float> values = TrainAndSave(group, *model, checkpoint, 2);
    {
      Check check{.at = 2};
      const Asking asking(&check);
      EXPECT_EQ(weft_shard_context_destroy(model->context), WEFT_INTERRUPTED);
      EXPECT_TRUE(LastErrorHas("nothing was freed")) << weft_last_error();
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(weft_shard_context_destroy(model->context), WEFT_TIMEOUT);
      EXPECT_THAT(weft_last_error(), HasSubstr("shard_context_destroy: nothing was freed, call it "
                                               "again when weft_checkpoint_wait says that the save "
                                               "has ended: a checkpoint that is saved"));
    }
    EXPECT_EQ(weft_checkpoint_wait(checkpoint, 1'000'000), WEFT_TIMEOUT);
    EXPECT_EQ(model->Read(), values);
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    TheDisk().Open();
    // Its time is over, but all may have been there when it was looked at.
    (void)weft_checkpoint_wait(checkpoint, 0);
    model->Step(3);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

}  // namespace
}  // namespace weft::test
