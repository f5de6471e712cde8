// A block store in memory that is as unhelpful as a disk may be: transfers are done when somebody waits for them, or by chance at any time before.
//
//   MemoryStore store(bytes, seed);
//   ... WindowSlots slots(store, ...) ...
//   EXPECT_EQ(store.complaints(), "");
//
// It complains of whoever changes memory that is being written, looks at memory that is being read (which holds NaNs until then), or has
// two transfers of the same bytes under way, one of them a write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shard/offload/block_store.h"

namespace weft::test {

class MemoryStore : public BlockStore {
 public:
  MemoryStore(uint64_t bytes, uint64_t seed) : content_(bytes), random_(seed) {}

  Ticket StartRead(uint64_t offset, std::byte* to, size_t bytes) override;
  Ticket StartWrite(uint64_t offset, const std::byte* from, size_t bytes) override;
  bool Done(Ticket ticket) override;
  absl::Status Wait(Ticket ticket) override;

  void Advance() override {}

  std::string_view how() const override { return "memory"; }

  // The k-th transfer from now on, counted from 1, fails, and every Wait() after it.
  void FailAt(int k) { fails_at_ = started_ + k; }

  const std::string& complaints() const { return complaints_; }

  uint64_t read_bytes() const { return read_bytes_; }

  uint64_t written_bytes() const { return written_bytes_; }

  int started() const { return started_; }

  size_t under_way() const { return transfers_.size(); }

 private:
  struct Transfer {
    bool writes = false;
    uint64_t offset = 0;
    std::byte* memory = nullptr;
    size_t bytes = 0;
    std::vector<std::byte> as_it_began;  // of a write
    bool fails = false;
  };

  Ticket Start(Transfer transfer);
  void Complain(const std::string& what, const Transfer& transfer);

  std::vector<std::byte> content_;
  std::mt19937_64 random_;
  Ticket last_ = 0;
  std::map<Ticket, Transfer> transfers_;
  int started_ = 0;
  int fails_at_ = 0;
  absl::Status failure_;
  std::string complaints_;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;
};

}  // namespace weft::test
