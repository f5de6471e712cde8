// Offloaded state in a file without a name, read and written past the page cache where the file system lets it.
//
//   WEFT_ASSIGN_OR_RETURN(auto file, ScratchFile::Create({.directory = "/scratch", .bytes = bytes, .buffers = slots}));
//   const BlockStore::Ticket ticket = file->StartRead(0, slots[0].data(), slots[0].size());
//
// Create() finds out what would go wrong later: its room is reserved, and one block is written, read back and compared, by the queue that is
// used from then on. Where the file system refuses O_DIRECT, transfers go through the page cache, and by threads unless io_uring was asked for.
//
// Nothing is left behind, however the process ends. Its room may be given back a moment after the destructor.
//
// Thread-safety: as BlockStore. Threads: the queue's, if it is of threads (thread_queue.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "shard/offload/block_store.h"
#include "shard/offload/open_queue.h"
#include "shard/offload/queued_store.h"

namespace weft {

class ScratchFile : public BlockStore {
 public:
  struct Config {
    std::string directory;  // that is there
    uint64_t bytes = 0;     // a multiple of kAlignment, more than 0
    // Where transfers mostly lie, and aligned as they are: io_uring registers them. They outlive the file.
    std::span<const std::span<std::byte>> buffers = {};
    OffloadIo io = OffloadIo::kAuto;
    int64_t timeout_ns = 0;  // of a transfer; 0: WEFT_TIMEOUT_S
    bool direct = true;      // false: through the page cache in any case
    size_t block_bytes = QueuedStore::kBlockBytes;
    // Blocks under way at most: all that the disk has to do while the caller computes without Advance(). More may be slower (docs/perf/offload.md).
    size_t depth = 8;
    size_t threads = 4;  // if it is threads that carry them
  };

  // NOT_FOUND (absl's): there is no such directory. OUT_OF_MEMORY: its disk is full, with bytes wanted and free. UNSUPPORTED: kUring, and there is
  // none. CORRUPT: the disk does not return what was written. Others as FileError(). Nothing is left then.
  static absl::StatusOr<std::unique_ptr<ScratchFile>> Create(const Config& config);

  // Another store of the same file, with a queue of its own, which may be used by another thread and outlive this one. Transfers of both that
  // touch the same bytes, one of them a write, are the callers' to wait between. `buffers` as in Config. SYSTEM_ERROR if there is no
  // descriptor or thread to be had.
  absl::StatusOr<std::unique_ptr<BlockStore>> OpenAgain(
      std::span<const std::span<std::byte>> buffers) const;

  Ticket StartRead(uint64_t offset, std::byte* to, size_t bytes) override {
    return store_.StartRead(offset, to, bytes);
  }

  Ticket StartWrite(uint64_t offset, const std::byte* from, size_t bytes) override {
    return store_.StartWrite(offset, from, bytes);
  }

  bool Done(Ticket ticket) override { return store_.Done(ticket); }

  absl::Status Wait(Ticket ticket) override { return store_.Wait(ticket); }

  void Advance() override { store_.Advance(); }

  std::string_view how() const override { return how_; }

 private:
  ScratchFile(const Config& config, UniqueFd file, bool direct, std::unique_ptr<BlockQueue> queue);

  static absl::StatusOr<std::unique_ptr<BlockQueue>> OpenQueue(const Config& config, bool direct,
                                                               const UniqueFd& file);

  const Config config_;  // without buffers
  const UniqueFd file_;
  const bool direct_;
  const std::string how_;
  QueuedStore store_;
};

}  // namespace weft
