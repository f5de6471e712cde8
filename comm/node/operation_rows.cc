// The forms in which a rank knows only what it sends and receives itself: gather_v, scatter_v and
// all_to_all_v. All three are an exchange of blocks between all pairs, most of them empty for the first
// two.
//
// With its arrival a rank puts a row into its slot: for every peer what it sends, where that begins in
// its buffer, and what it expects. Every rank reads all rows and checks all pairs, so that a difference
// is found by all. Behind the row lies the data, the blocks packed, if there is room for it; if all
// ranks had room, the operation is done with that.
#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/operation.h"
#include "fmt/format.h"

namespace weft {
namespace {

struct Entry {
  uint64_t in_count;   // elements for that peer
  uint64_t in_offset;  // where they begin in the sender's buffer
  uint64_t out_count;  // elements expected from that peer
};

// A slot that holds a row: one word, the entries, the data.
class Row {
 public:
  Row(char* slot, int size) : slot_(slot), size_(size) {}

  // 1 if the packed data follows the entries.
  uint64_t& has_data() const { return *reinterpret_cast<uint64_t*>(slot_); }

  Entry& entry(int rank) const { return reinterpret_cast<Entry*>(slot_ + sizeof(uint64_t))[rank]; }

  size_t Bytes() const { return sizeof(uint64_t) + static_cast<size_t>(size_) * sizeof(Entry); }

  char* data() const { return slot_ + Bytes(); }

  size_t room_bytes() const { return kSlotBytes - Bytes(); }

 private:
  char* slot_;
  int size_;
};

static_assert(sizeof(uint64_t) + kNodeRanksMax * sizeof(Entry) <= kSlotBytes);

}  // namespace

void Operation::WriteRow(const NodeState& state) {
  const Row row(SlotOf(state, state.rank), state.size);
  const size_t element = shape_.element_bytes;
  size_t total = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    row.entry(peer) = {InCount(call_, peer), InOffset(call_, peer), OutCount(call_, peer)};
    total += InCount(call_, peer);
  }
  const bool small = call_.algorithm == Algorithm::kAuto && total * element <= row.room_bytes();
  row.has_data() = small ? 1 : 0;
  if (!small) return;
  char* to = row.data();
  for (int peer = 0; peer < state.size; ++peer) {
    CopyIn(call_, peer, 0, InCount(call_, peer), to);
    to += InCount(call_, peer) * element;
  }
}

absl::Status Operation::ReadRows(const NodeState& state) {
  in_slots_ = true;
  largest_ = 0;
  for (int from = 0; from < state.size; ++from) {
    const Row sender(SlotOf(state, from), state.size);
    in_slots_ = in_slots_ && sender.has_data() != 0;
    for (int to = 0; to < state.size; ++to) {
      const Row receiver(SlotOf(state, to), state.size);
      const uint64_t sent = sender.entry(to).in_count;
      const uint64_t expected = receiver.entry(from).out_count;
      largest_ = std::max<size_t>(largest_, sent);
      if (sent == expected) continue;
      return MakeError(WEFT_MISMATCH, {.rank = from},
                       fmt::format("rank {} sends {} {} to rank {}, which expects {}; what a rank "
                                   "sends must be what the other one expects",
                                   from, sent, DtypeName(call_.dtype), to, expected));
    }
  }
  return absl::OkStatus();
}

absl::Status Operation::OneShotRows(const NodeState& state) {
  const size_t element = shape_.element_bytes;
  for (int peer = 0; peer < state.size; ++peer) {
    const size_t count = OutCount(call_, peer);
    if (count == 0) continue;
    const Row row(SlotOf(state, peer), state.size);
    const size_t room = row.room_bytes() / element;
    size_t begin = 0;
    for (int before = 0; before < state.rank; ++before) {
      begin = std::min<size_t>(room, begin + std::min<size_t>(room, row.entry(before).in_count));
    }
    if (count > room - begin) {
      return MakeError(WEFT_CORRUPT, {.rank = peer},
                       fmt::format("rank {} announced blocks that do not fit its slot", peer));
    }
    CopyOut(call_, peer, 0, count, row.data() + begin * element);
  }
  return absl::OkStatus();
}

// Elements between the beginning of what `peer` contributes and the block that is for this rank.
size_t Operation::PeerOffset(const NodeState& state, int peer) const {
  if (size_ != Size::kRows) return InOffset(call_, InBlock(state.rank));
  return Row(SlotOf(state, peer), state.size).entry(state.rank).in_offset;
}

}  // namespace weft
