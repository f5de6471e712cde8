// What a store makes of a queue that moves blocks in part, late, never, or not at all.
#include "shard/offload/queued_store.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "shard/offload/preflight.h"
#include "tests/shard/offload/aligned_memory.h"
#include "tests/shard/offload/fake_queue.h"
#include "tests/shard/offload/random_transfers.h"
#include "tests/support/leak_check.h"

namespace weft::test::queued_store_test {
namespace {

constexpr size_t kUnit = BlockStore::kAlignment;
constexpr int64_t kLongNs = 60'000'000'000;
constexpr int64_t kShortNs = 50'000'000;

// A store of four blocks of two units each at a time, over memory.
class QueuedStoreTest : public ::testing::Test {
 protected:
  QueuedStore& Make(FakeQueue::Decide decide, int64_t timeout_ns = kLongNs, size_t depth = 4) {
    auto queue = std::make_unique<FakeQueue>(file_, depth, seed_, std::move(decide));
    queue_ = queue.get();
    store_ = std::make_unique<QueuedStore>(std::move(queue),
                                           QueuedStore::Settings{.bytes = file_.size(),
                                                                 .place = "/scratch",
                                                                 .timeout_ns = timeout_ns,
                                                                 .block_bytes = 2 * kUnit});
    return *store_;
  }

  absl::Status ReadAll(QueuedStore& store) {
    return store.Wait(store.StartRead(0, memory_.data(), memory_.size()));
  }

  const uint64_t seed_ = TestSeed(1);
  std::vector<std::byte> file_ = std::vector<std::byte>(33 * kUnit);
  AlignedMemory memory_{33 * kUnit};
  FakeQueue* queue_ = nullptr;
  std::unique_ptr<QueuedStore> store_;
};

FakeQueue::Answer ByChance(std::mt19937_64& random, const BlockRequest& request) {
  switch (random() % 8) {
    case 0:
      return FakeQueue::Error(EINTR);
    case 1:
      return FakeQueue::Error(EAGAIN);
    case 2:
      return FakeQueue::Short(static_cast<int64_t>(random() % request.bytes));
    case 3:
      return FakeQueue::Late(static_cast<int>(random() % 5));
    case 4:
      return FakeQueue::Short(0);
    default:
      return FakeQueue::Whole();
  }
}

TEST_F(QueuedStoreTest, WhatIsMovedInPartOrNotYetIsGoneOnFrom) {
  for (const size_t depth : {1, 3, 16}) {
    SCOPED_TRACE(StrCat("seed ", seed_, ", depth ", depth));
    std::mt19937_64 random(seed_ + depth);
    file_.assign(file_.size(), std::byte{0});
    QueuedStore& store =
        Make([&random](const BlockRequest& request) { return ByChance(random, request); }, kLongNs,
             depth);
    std::vector<AlignedMemory> slots;
    for (const size_t units : {1, 5, 8, 3, 11})
      slots.emplace_back(units * kUnit);
    RandomTransfers(store, file_.size(), slots, seed_).Run(300);
  }
}

TEST_F(QueuedStoreTest, NoMoreThanTheQueueTakesIsUnderWay) {
  QueuedStore& store = Make([](const BlockRequest&) { return FakeQueue::Late(3); });
  const BlockStore::Ticket ticket = store.StartRead(0, memory_.data(), memory_.size());
  EXPECT_EQ(queue_->under_way(), 4U);
  for (int i = 0; i < 4; ++i)
    store.Advance();
  EXPECT_EQ(queue_->under_way(), 4U) << "those that have ended are followed by others";
  EXPECT_EQ(store.Wait(ticket), absl::OkStatus());
  EXPECT_EQ(queue_->under_way(), 0U);
}

TEST_F(QueuedStoreTest, ATransferOfNothingEnds) {
  QueuedStore& store = Make([](const BlockRequest&) { return FakeQueue::Never(); });
  EXPECT_EQ(store.Wait(store.StartRead(33 * kUnit, memory_.data(), 0)), absl::OkStatus());
}

TEST_F(QueuedStoreTest, TheFirstErrorIsFinalAndSaysWhatWasAttempted) {
  QueuedStore& store = Make([](const BlockRequest& request) {
    return request.kind == BlockRequest::kWrite && request.offset == 4 * kUnit
               ? FakeQueue::Error(EIO)
               : FakeQueue::Whole();
  });
  EXPECT_EQ(ReadAll(store), absl::OkStatus());
  const absl::Status failed = store.Wait(store.StartWrite(0, memory_.data(), memory_.size()));
  EXPECT_EQ(weft::ResultOf(failed), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(failed.message().find("writing 8.0 KiB of offloaded state at byte 16384 of the file in "
                                  "/scratch: Input/output error"),
            0U)
      << failed;
  EXPECT_EQ(ReadAll(store), failed);
  EXPECT_EQ(store.Wait(store.StartWrite(0, memory_.data(), kUnit)), failed);
  EXPECT_EQ(queue_->under_way(), 0U) << "nothing is started any more";
}

TEST_F(QueuedStoreTest, AFullDiskIsALackOfRoom) {
  QueuedStore& store = Make([](const BlockRequest&) { return FakeQueue::Error(ENOSPC); });
  const absl::Status failed = store.Wait(store.StartWrite(0, memory_.data(), kUnit));
  EXPECT_EQ(weft::ResultOf(failed), WEFT_OUT_OF_MEMORY) << failed;
}

TEST_F(QueuedStoreTest, AnotherTransfersErrorIsToldWhenItsOwnMemoryIsFree) {
  QueuedStore& store = Make([](const BlockRequest& request) {
    return request.kind == BlockRequest::kWrite ? FakeQueue::Error(EIO) : FakeQueue::Late(20);
  });
  const BlockStore::Ticket read = store.StartRead(0, memory_.data(), 2 * kUnit);
  const BlockStore::Ticket write = store.StartWrite(8 * kUnit, memory_.data() + 8 * kUnit, kUnit);
  const absl::Status failed = store.Wait(write);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(queue_->under_way(), 1U);
  EXPECT_EQ(store.Wait(read), failed);
  EXPECT_EQ(queue_->under_way(), 0U);
}

TEST_F(QueuedStoreTest, WhatMovesNothingAgainAndAgainHasFailed) {
  for (const FakeQueue::Answer answer :
       {FakeQueue::Error(EAGAIN), FakeQueue::Error(EINTR), FakeQueue::Short(kUnit - 1)}) {
    int attempts = 0;
    QueuedStore& store = Make([&](const BlockRequest&) {
      ++attempts;
      return answer;
    });
    const absl::Status failed = store.Wait(store.StartRead(0, memory_.data(), 2 * kUnit));
    EXPECT_EQ(weft::ResultOf(failed), WEFT_SYSTEM_ERROR) << failed;
    EXPECT_NE(failed.message().find(", 64 times: "), std::string::npos) << failed;
    EXPECT_EQ(attempts, 65);
  }
}

TEST_F(QueuedStoreTest, WhatNeverEndsIsATimeoutAndIsLeftBehind) {
  auto memory = std::make_unique<AlignedMemory>(33 * kUnit);
  QueuedStore& store = Make(
      [](const BlockRequest& request) {
        return request.offset == 0 ? FakeQueue::Never() : FakeQueue::Whole();
      },
      kShortNs);
  const BlockStore::Ticket first = store.StartRead(0, memory->data(), 4 * kUnit);
  const BlockStore::Ticket second = store.StartRead(8 * kUnit, memory->data() + 8 * kUnit, kUnit);
  const int64_t begin_ns = MonotonicNs();
  const absl::Status late = store.Wait(first);
  const int64_t waited_ns = MonotonicNs() - begin_ns;
  EXPECT_EQ(weft::ResultOf(late), WEFT_TIMEOUT);
  EXPECT_NE(late.message().find("reading 16.0 KiB of offloaded state at byte 0 of the file in "
                                "/scratch has not ended within 0.05 s"),
            std::string::npos)
      << late;
  EXPECT_GE(waited_ns, kShortNs);
  EXPECT_EQ(store.Wait(second), late);
  EXPECT_EQ(store.Wait(store.StartWrite(0, memory->data(), kUnit)), late);
  const int64_t end_ns = MonotonicNs();
  store_.reset();
  EXPECT_LT(MonotonicNs() - end_ns, kShortNs) << "nobody waits a second time";
  memory->LeaveBehind();
}

TEST_F(QueuedStoreTest, AfterAnErrorWhatNeverEndsIsStillATimeout) {
  auto memory = std::make_unique<AlignedMemory>(33 * kUnit);
  QueuedStore& store = Make(
      [](const BlockRequest& request) {
        return request.kind == BlockRequest::kRead ? FakeQueue::Never() : FakeQueue::Error(EIO);
      },
      kShortNs);
  const BlockStore::Ticket read = store.StartRead(0, memory->data(), kUnit);
  const BlockStore::Ticket another = store.StartRead(kUnit, memory->data() + kUnit, kUnit);
  const BlockStore::Ticket write = store.StartWrite(8 * kUnit, memory->data() + 8 * kUnit, kUnit);
  EXPECT_EQ(weft::ResultOf(store.Wait(write)), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(weft::ResultOf(store.Wait(read)), WEFT_TIMEOUT) << "its memory is not free";
  EXPECT_EQ(weft::ResultOf(store.Wait(another)), WEFT_TIMEOUT);
  store_.reset();
  memory->LeaveBehind();
}

TEST_F(QueuedStoreTest, TheDestructorWaitsForAWhile) {
  Make([](const BlockRequest&) { return FakeQueue::Late(10); });
  (void)store_->StartRead(0, memory_.data(), memory_.size());
  store_.reset();  // its memory is free now
  auto memory = std::make_unique<AlignedMemory>(kUnit);
  Make([](const BlockRequest&) { return FakeQueue::Never(); }, kShortNs);
  (void)store_->StartRead(0, memory->data(), kUnit);
  const int64_t begin_ns = MonotonicNs();
  store_.reset();
  EXPECT_GE(MonotonicNs() - begin_ns, kShortNs);
  memory->LeaveBehind();
}

TEST_F(QueuedStoreTest, AForkedChildTouchesNothing) {
  QueuedStore& store = Make([](const BlockRequest&) { return FakeQueue::Late(3); });
  const BlockStore::Ticket ticket = store.StartRead(0, memory_.data(), memory_.size());
  const pid_t child = fork();
  if (child == 0) {
    store.Advance();
    bool good = weft::ResultOf(store.Wait(ticket)) == WEFT_FORKED;
    good = good &&
           weft::ResultOf(store.Wait(store.StartWrite(0, memory_.data(), kUnit))) == WEFT_FORKED;
    good = good && queue_->under_way() == 4;
    store_.reset();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(store.Wait(ticket), absl::OkStatus());
}

TEST_F(QueuedStoreTest, TryingItLeavesZeros) {
  EXPECT_EQ(TryStore(Make([](const BlockRequest&) { return FakeQueue::Whole(); })),
            absl::OkStatus());
  EXPECT_EQ(file_, std::vector<std::byte>(file_.size()));
}

TEST_F(QueuedStoreTest, ADiskThatForgetsIsFoundByTryingIt) {
  QueuedStore& store = Make([this](const BlockRequest& request) {
    if (request.kind == BlockRequest::kRead) file_[123] ^= std::byte{1};
    return FakeQueue::Whole();
  });
  const absl::Status tried = TryStore(store);
  EXPECT_EQ(weft::ResultOf(tried), WEFT_CORRUPT) << tried;
}

}  // namespace
}  // namespace weft::test::queued_store_test
