// What the ranks of an island show each other of their part in a group over several islands: the rings of the flight recorder, and whom
// each waits for. It lies in memory of the island, so it can be read when the rank that has written it has died.
//
//   const auto records = std::make_shared<SpanRecords>(block, ranks, place);   // block: BytesFor() that the island's ranks share
//   records->calls().Record(...);                        // of this rank
//   records->ShowWait(SpanWait{.sequence = 412, .awaited = 5});
//   records->WaitOf(3);                                  // of any rank of the island
//
// Each rank clears what is its own when it makes the object; whoever comes out of the next collective call of the island finds all cleared.
//
// Thread-safety: what is of this rank is written by one thread at a time, but for events; anybody reads. The block is borrowed: nothing is
// touched once the island's group has been closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/recorder/dump.h"
#include "comm/recorder/lifecycle.h"
#include "comm/recorder/message_ring.h"
#include "comm/recorder/ring.h"

namespace weft {

// What a rank waits in, at its last look, every 0.2 ms.
struct SpanWait {
  uint32_t sequence = 0;  // the low bits of the collective's number; 0: of a message
  int awaited = -1;       // a rank of the group; WEFT_ANY_SOURCE: whoever sends first
  bool begun =
      false;         // of a message: it is one that was matched, or a send, which may be on its way
  bool met = false;  // that rank has come to what it is waited for with: the link has to carry it

  bool operator==(const SpanWait&) const = default;
};

class SpanRecords {
 public:
  static size_t BytesFor(int rank_count);

  // `ranks`: those of the island, by their numbers in the group. `place`: of this one among them.
  SpanRecords(std::byte* block, std::vector<int> ranks, int place);

  // Of rank `rank` alone, in memory of its own, which nobody else reads: of a group that has ended before it could be used.
  explicit SpanRecords(int rank);
  ~SpanRecords();

  // Of this rank.
  RecorderRing calls() const;
  LifecycleLog events() const;

  MessageRing& messages() { return messages_; }

  void SetState(uint32_t state) const;  // as in DumpedRank
  void ShowWait(const std::optional<SpanWait>& wait) const;
  void NoteMessageEnded() const;

  // Whether the rank, of the group, is on this island. The rest is of such ranks alone.
  bool Has(int rank) const { return PlaceOf(rank) >= 0; }

  std::optional<SpanWait> WaitOf(int rank) const;
  // How many of its messages have ended.
  uint64_t MessagesEnded(int rank) const;
  // Its collective of that number, if it is among its last ones.
  std::optional<RecordedCall> CallOf(int rank, uint64_t sequence) const;
  // Whether it has issued the collective.
  bool HasCome(int rank, uint32_t sequence) const;
  // Its rings and its state.
  void CopyTo(int rank, DumpedRank* dumped) const;

 private:
  struct Record;

  int PlaceOf(int rank) const;
  Record& At(int place) const;

  const std::unique_ptr<Record> own_;  // nullptr: it is in the block
  std::byte* const block_;
  const std::vector<int> ranks_;
  const int place_;
  MessageRing messages_;
};

}  // namespace weft
