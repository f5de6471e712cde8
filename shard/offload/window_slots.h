// The windows that are in memory: a few slots, into which the windows that come next are read, and from which those that were changed are
// written, while another one is used.
//
//   WindowSlots slots(store, places, memory, slot_bytes);
//   slots.Expect({0, 1, 2, 3});
//   WEFT_RETURN_IF_ERROR(slots.Visit(0, /*changes=*/true));       // 1 and 2 are being read from here on
//   ... slots.data() ...
//   WEFT_RETURN_IF_ERROR(slots.Visit(1, true));                   // 0 is being written
//   WEFT_RETURN_IF_ERROR(slots.Leave());
//
// A slot keeps its window until it is needed for another one, so a model whose state is small is never read again. While a window is being
// written its slot is its own: no transfer that is under way shares a byte with another.
//
// Errors are the store's, and final: a write that fails is told of by a later call.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "shard/offload/block_store.h"
#include "shard/offload/state_windows.h"

namespace weft {

class WindowSlots {
 public:
  // `memory` has a whole number of slots of `slot_bytes`, aligned as BlockStore wants it. Store and memory outlive this; memory
  // that was never written is zeros in the store.
  WindowSlots(BlockStore& store, std::vector<WindowPlace> places, std::span<std::byte> memory,
              size_t slot_bytes);

  // Which windows will be visited next, in order.
  void Expect(std::vector<int> windows);
  // Ends the visit before, and waits until the window is in memory. If it `changes` something, it is written at the end of the visit.
  absl::Status Visit(int window, bool changes);
  absl::Status Leave();

  // Of the window that is visited.
  std::byte* data() const { return visited_ == nullptr ? nullptr : visited_->memory; }

  int visited() const { return window_; }

  // Bytes [begin, begin + bytes) of a window, while none is visited. What is in memory is not read again, and what is written goes
  // to both.
  absl::Status Read(int window, size_t begin, size_t bytes, void* to);
  absl::Status Write(int window, size_t begin, size_t bytes, const void* from);

  // Waits for what is being written.
  absl::Status AwaitWrites();
  // Waits for all transfers.
  absl::Status Drain();

  // The store still has some of the memory, for good: a transfer has timed out.
  bool memory_is_lost() const { return memory_is_lost_; }

 private:
  static constexpr int kNone = -1;

  struct Slot {
    std::byte* memory = nullptr;
    int window = kNone;
    BlockStore::Ticket ticket = 0;  // of what is under way; 0: nothing
    bool writes = false;            // and that it is
    uint64_t used = 0;              // when it was last visited, or begun
  };

  Slot* Find(int window);
  // Whether it comes among the next windows, as many as there are slots.
  bool IsAwaited(int window) const;
  // One that may be given to another window now; nullptr if there is none. Never the visited one.
  Slot* Idle(bool awaited_too);
  // The same, for which it waits if it must.
  absl::Status Free(Slot** slot);
  absl::Status WaitFor(Slot& slot);
  absl::Status Await(BlockStore::Ticket ticket);
  void StartRead(Slot& slot, int window);
  // One whose window is forgotten, to be used for a part of another one.
  absl::Status Borrow(Slot** slot);
  // The blocks of a window that have these bytes, to or from a slot, where they lie as in the window.
  absl::Status MoveBlocks(const Slot& slot, int window, size_t begin, size_t end, bool writes);
  void ReadAhead();
  // If it was to come next, the one after it is now. After Leave(), which would read over what is not expected.
  void NoteVisit(int window);

  BlockStore& store_;
  const std::vector<WindowPlace> places_;
  std::vector<Slot> slots_;
  std::vector<int> expected_;
  size_t next_ = 0;  // of expected_, to be visited next
  int window_ = kNone;
  Slot* visited_ = nullptr;  // nullptr, too, for a window without bytes
  bool changed_ = false;
  uint64_t clock_ = 0;
  absl::Status failure_;
  bool memory_is_lost_ = false;
};

}  // namespace weft
