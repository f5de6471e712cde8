// A block store in memory that is as unhelpful as a disk may be: transfers are done when somebody waits for them, or by chance at any time before.
//
//   MemoryStore store(bytes, seed);
//   ... WindowSlots slots(store, ...) ...
//   EXPECT_EQ(store.complaints(), "");
//
// It complains of whoever changes memory that is being written, looks at memory that is being read (which holds NaNs until then), or has
// two transfers of the same bytes under way, one of them a write.
//
// Several stores may have the same bytes, each used by a thread of its own; what is said of transfers is said of those of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "shard/offload/block_store.h"

namespace weft::test {

class MemoryStore : public BlockStore {
 public:
  MemoryStore(uint64_t bytes, uint64_t seed) : disk_(std::make_shared<Disk>()), random_(seed) {
    MutexLock lock(disk_->mutex);
    disk_->content.resize(bytes);
  }

  // Of the same bytes as `other`, which need not outlive it.
  MemoryStore(const MemoryStore& other, uint64_t seed) : disk_(other.disk_), random_(seed) {}

  Ticket StartRead(uint64_t offset, std::byte* to, size_t bytes) override;
  Ticket StartWrite(uint64_t offset, const std::byte* from, size_t bytes) override;
  bool Done(Ticket ticket) override;
  absl::Status Wait(Ticket ticket) override;

  void Advance() override {}

  std::string_view how() const override { return "memory"; }

  // The k-th transfer from now on, counted from 1, fails, and every Wait() after it.
  void FailAt(int k) { fails_at_ = started_ + k; }

  // Of all stores of these bytes.
  std::string complaints() const {
    MutexLock lock(disk_->mutex);
    return disk_->complaints;
  }

  uint64_t read_bytes() const { return read_bytes_; }

  uint64_t written_bytes() const { return written_bytes_; }

  int started() const { return started_; }

  // In all stores of these bytes.
  size_t under_way() const {
    MutexLock lock(disk_->mutex);
    return disk_->transfers.size();
  }

 private:
  struct Transfer {
    bool writes = false;
    uint64_t offset = 0;
    std::byte* memory = nullptr;
    size_t bytes = 0;
    std::vector<std::byte> as_it_began;  // of a write
    bool fails = false;
  };

  struct Disk {
    Mutex mutex;
    std::vector<std::byte> content WEFT_GUARDED_BY(mutex);
    Ticket last WEFT_GUARDED_BY(mutex) = 0;
    std::map<Ticket, Transfer> transfers WEFT_GUARDED_BY(mutex);
    std::string complaints WEFT_GUARDED_BY(mutex);

    void Complain(const std::string& what, const Transfer& transfer) WEFT_REQUIRES(mutex);
  };

  Ticket Start(Transfer transfer);

  const std::shared_ptr<Disk> disk_;
  std::mt19937_64 random_;
  int started_ = 0;
  int fails_at_ = 0;
  absl::Status failure_;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;
};

}  // namespace weft::test
