#include "comm/node/count_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
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

bool CountExchange::SendsData(const Collective& call, int ranks) {
  size_t total = 0;
  for (int peer = 0; peer < ranks; ++peer)
    total += InCount(call, peer);
  return call.algorithm == Protocol::kAuto &&
         total * ElementBytes(call) <= Row(nullptr, ranks).room_bytes();
}

void CountExchange::PutRow(const OperationFrame& frame, const SlotProtocol& slot) {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  const Row row(slot.Of(state, state.rank), state.size);
  const size_t element = frame.shape().element_bytes;
  for (int peer = 0; peer < state.size; ++peer)
    row.entry(peer) = {InCount(call, peer), InOffset(call, peer), OutCount(call, peer)};
  const bool sends = SendsData(call, state.size);
  row.has_data() = sends ? 1 : 0;
  if (!sends) return;
  char* to = row.data();
  for (int peer = 0; peer < state.size; ++peer) {
    CopyIn(call, peer, 0, InCount(call, peer), to);
    to += InCount(call, peer) * element;
  }
}

absl::Status CountExchange::Read(const OperationFrame& frame, const SlotProtocol& slot) {
  const NodeState& state = frame.state;
  has_data_ = true;
  largest_ = 0;
  for (int from = 0; from < state.size; ++from) {
    const Row sender(slot.Of(state, from), state.size);
    has_data_ = has_data_ && sender.has_data() != 0;
    for (int to = 0; to < state.size; ++to) {
      const Row receiver(slot.Of(state, to), state.size);
      const uint64_t sent = sender.entry(to).in_count;
      const uint64_t expected = receiver.entry(from).out_count;
      largest_ = std::max<size_t>(largest_, sent);
      if (sent == expected) continue;
      return MakeError(WEFT_MISMATCH, {.rank = from},
                       fmt::format("rank {} sends {} {} to rank {}, which expects {}; what a rank "
                                   "sends must be what the other one expects",
                                   state.GroupRank(from), sent, DtypeName(frame.call().dtype),
                                   state.GroupRank(to), expected));
    }
  }
  return absl::OkStatus();
}

absl::Status CountExchange::CopyData(const OperationFrame& frame, const SlotProtocol& slot) {
  const NodeState& state = frame.state;
  const size_t element = frame.shape().element_bytes;
  for (int peer = 0; peer < state.size; ++peer) {
    const size_t count = OutCount(frame.call(), peer);
    if (count == 0) continue;
    const Row row(slot.Of(state, peer), state.size);
    const size_t room = row.room_bytes() / element;
    size_t begin = 0;
    for (int before = 0; before < state.rank; ++before) {
      begin = std::min<size_t>(room, begin + std::min<size_t>(room, row.entry(before).in_count));
    }
    if (count > room - begin) {
      return MakeError(
          WEFT_CORRUPT, {.rank = peer},
          fmt::format("rank {} announced blocks that do not fit its slot", state.GroupRank(peer)));
    }
    CopyOut(frame.call(), peer, 0, count, row.data() + begin * element);
  }
  return absl::OkStatus();
}

size_t CountExchange::OffsetAt(const OperationFrame& frame, const SlotProtocol& slot, int peer) {
  return Row(slot.Of(frame.state, peer), frame.state.size).entry(frame.state.rank).in_offset;
}

}  // namespace weft
