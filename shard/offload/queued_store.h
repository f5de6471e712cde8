// A store over a queue of requests: cuts transfers into blocks, keeps the queue full, goes on where a block was moved in part, and gives up in
// time.
//
//   QueuedStore store(std::move(queue), {.bytes = file_bytes, .place = "/scratch", .timeout_ns = 60'000'000'000});
//
// Transfers are begun in the order in which they were started; of each, blocks in order of offset. A block that was attempted kAttemptsMax
// times in a row without moving kAlignment bytes has failed. EINTR and EAGAIN count as such attempts; other errors are its failure at
// once.
//
// A transfer has timeout_ns from when Wait() is called for it. What has not ended by then is left behind with its memory and, in the end, the queue
// (TIMEOUT), and from then on no Wait() waits.
//
// In a forked child nothing is touched: Wait() says WEFT_FORKED, and the destructor leaves the parent's queue be.
//
// Thread-safety: as BlockStore. Memory: grows only where more transfers are under way than ever before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "comm/group/fork.h"
#include "shard/offload/block_queue.h"
#include "shard/offload/block_store.h"

namespace weft {

class QueuedStore : public BlockStore {
 public:
  // Large enough for the disk, and small enough that a window is several of them (docs/perf/offload.md).
  static constexpr size_t kBlockBytes = size_t{2} << 20;
  static constexpr uint32_t kAttemptsMax = 64;

  struct Settings {
    uint64_t bytes = 0;                // of the store
    std::string place;                 // where it is, for messages
    int64_t timeout_ns = 0;            // more than 0
    size_t block_bytes = kBlockBytes;  // a multiple of kAlignment, below 2 GiB
  };

  QueuedStore(std::unique_ptr<BlockQueue> queue, Settings settings);
  QueuedStore(const QueuedStore&) = delete;
  QueuedStore& operator=(const QueuedStore&) = delete;
  // Waits for what is under way, for timeout_ns at most; not at all after a TIMEOUT.
  ~QueuedStore() override;

  Ticket StartRead(uint64_t offset, std::byte* to, size_t bytes) override;
  Ticket StartWrite(uint64_t offset, const std::byte* from, size_t bytes) override;
  bool Done(Ticket ticket) override;
  absl::Status Wait(Ticket ticket) override;
  void Advance() override;

  std::string_view how() const override { return queue_->how(); }

 private:
  struct Transfer {
    Ticket ticket = 0;
    BlockRequest::Kind kind = BlockRequest::kRead;
    std::byte* memory = nullptr;
    uint64_t offset = 0;
    size_t bytes = 0;
    // From its beginning on, in blocks that were begun; `bytes`, too, when the rest is not to be.
    size_t begun_bytes = 0;
    uint32_t open_blocks = 0;  // begun, and neither ended nor failed
  };

  // What is left of a block. Its place in blocks_ is the tag of its request.
  struct Block {
    Transfer* transfer = nullptr;
    uint64_t offset = 0;
    std::byte* memory = nullptr;
    uint32_t bytes = 0;
    uint32_t attempts = 0;  // in a row, that have moved nothing
  };

  static bool HasEnded(const Transfer& transfer) {
    return transfer.open_blocks == 0 && transfer.begun_bytes == transfer.bytes;
  }

  using Transfers = std::vector<std::unique_ptr<Transfer>>;

  Transfers::iterator Find(Ticket ticket);
  Ticket Begin(BlockRequest::Kind kind, uint64_t offset, std::byte* memory, size_t bytes);
  // Starts blocks until the queue is full or nothing is left to start.
  void Fill();
  bool FillFrom(Transfer& transfer);
  bool StartBlock(uint64_t tag);
  // Takes what has ended; if nothing has, waits for something until deadline_ns.
  void Reap(int64_t deadline_ns);
  void Settle(const BlockEnd& end);
  void TryAgain(uint64_t tag, int error_number);
  void EndBlock(uint64_t tag);
  // The first failure counts. Nothing is begun any more.
  void Fail(const absl::Status& status);
  absl::Status TimeoutOf(const Transfer& transfer) const;
  std::string Attempt(BlockRequest::Kind kind, uint64_t offset, size_t bytes) const;

  const Origin origin_;
  std::unique_ptr<BlockQueue> queue_;
  const Settings settings_;
  Ticket last_ticket_ = 0;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // not waited for yet, in order
  size_t begun_count_ = 0;                            // of them, from the first on: wholly begun
  std::vector<std::unique_ptr<Transfer>> spare_;
  std::vector<std::unique_ptr<Transfer>> left_behind_;
  std::vector<Block> blocks_;
  std::vector<uint64_t> free_blocks_;
  std::vector<uint64_t> again_;  // to be started anew
  size_t under_way_ = 0;         // requests of the queue
  absl::Status failure_;
  bool timed_out_ = false;
};

}  // namespace weft
