// An island's memory, where the processes of the island share pages.
//
//   WEFT_ASSIGN_OR_RETURN(Pages pages, Pages::Create("weft-island", IslandSharedMemory::BytesFor(map, island), Backing::kAllocated));
//   IslandSharedMemory memory(map, island, process, pages.data());   // in each process, which has mapped the same pages
//
// One word, the head, says which process speaks in which term and where what it wrote last stands. A write puts everything into a
// place that nothing points to, and then moves the head by one compare-and-swap: it has happened or not, whenever the writer is
// killed or stopped, and it fails if the term has passed on. Invariants:
//   (H1) A process writes only in its own two places, and in the one that the head does not name: a writer that goes on after
//        another process has taken over spoils nothing, as the head can come to name its place by its own swap alone.
//   (H2) A head is never the same twice in a reader's copy: it counts writes. A copy counts if the head is the same after it.
//
// Thread-safety: one thread per process; processes at the same time. `map` and the pages are borrowed. New pages, which read as
// zero, are a memory in which nothing was written: epoch 1 of all ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/agent/island_map.h"
#include "comm/agent/island_memory.h"

namespace weft {

class IslandSharedMemory : public IslandMemory {
 public:
  static size_t BytesFor(const IslandMap& map, int island);

  // `block`: BytesFor() bytes, aligned to a cache line.
  IslandSharedMemory(const IslandMap& map, int island, int process, std::byte* block);

  uint64_t Take() override;
  bool Holds(uint64_t term) override;
  IslandState Read() override;
  bool Write(uint64_t term, const IslandState& state) override;
  std::vector<GroupVerdict> ReadVerdicts() override;
  bool WriteVerdict(uint64_t term, const GroupVerdict& verdict) override;
  void SetPresence(int process, IslandPresence presence) override;
  IslandPresence PresenceOf(int process) override;

  // Changes with all that is written, and with the speaker.
  uint64_t version() const { return Word(0).load(std::memory_order_acquire); }

 private:
  struct Content {
    IslandState state;
    std::vector<GroupVerdict> verdicts;  // the one that was written first is first
  };

  std::atomic<uint64_t>& Word(size_t index) const;
  size_t FirstWordOf(int process, int half) const;
  // What `head` names, as bytes, none if it names nothing there is; nothing if it was overwritten meanwhile.
  std::optional<std::string> Copy(uint64_t head) const;
  // Where `head` is set to the one that the content was read at.
  Content ReadContent(uint64_t* head);
  bool WriteContent(uint64_t head, const Content& content);
  std::optional<Content> Decode(const std::string& bytes) const;

  const IslandMap& map_;
  const int process_count_;
  const int process_;
  const size_t place_words_;
  std::byte* const block_;
  bool spoilt_ =
      false;  // what stands there cannot be read: nothing may be said that it might contradict
};

}  // namespace weft
