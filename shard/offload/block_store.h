// Where offloaded state is: bytes at offsets, read and written while the caller goes on. A seam: a file in practice (scratch_file.h), memory in
// tests.
//
//   const BlockStore::Ticket read = store.StartRead(offset, slot, bytes);
//   ... compute ...; store.Advance();
//   WEFT_RETURN_IF_ERROR(store.Wait(read));
//
// Offsets, sizes and addresses are multiples of kAlignment, and within the store: who asks for something else is broken. What was never
// written reads as zeros. Transfers are done in any order: two that touch the same bytes, one of them a write, are the caller's to wait between.
//
// Errors are final: what could not be written is lost, so after a first failure nothing else is started, and every later Wait() returns it
// again.
//
// Thread-safety: one thread at a time, not always the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace weft {

class BlockStore {
 public:
  static constexpr size_t kAlignment = 4096;  // of offsets, sizes and addresses

  // A transfer that was started. Never 0.
  using Ticket = uint64_t;

  // Waits for what is under way, for a bounded time. What has not come by then keeps its memory, as with TIMEOUT.
  virtual ~BlockStore() = default;

  // Start a transfer; the memory is the store's until Wait() of the ticket has returned. That holds with errors too, but for TIMEOUT: then the
  // system may still read or write the memory, at any time, so it must never be freed or used again. They do not wait. What goes
  // wrong is told by Wait().
  virtual Ticket StartRead(uint64_t offset, std::byte* to, size_t bytes) = 0;
  virtual Ticket StartWrite(uint64_t offset, const std::byte* from, size_t bytes) = 0;

  // Whether Wait() would return at once. Does not wait.
  virtual bool Done(Ticket ticket) = 0;
  // Until the transfer has ended, or failed. Each ticket once. TIMEOUT: see above.
  virtual absl::Status Wait(Ticket ticket) = 0;

  // Starts what a full queue or short transfers have left over; cheap, for callers that compute meanwhile.
  virtual void Advance() = 0;

  // "io_uring, O_DIRECT", for people.
  virtual std::string_view how() const = 0;
};

// Of offsets and sizes.
constexpr uint64_t RoundDownToBlock(uint64_t bytes) {
  return bytes / BlockStore::kAlignment * BlockStore::kAlignment;
}

constexpr uint64_t RoundUpToBlock(uint64_t bytes) {
  return RoundDownToBlock(bytes + BlockStore::kAlignment - 1);
}

}  // namespace weft
