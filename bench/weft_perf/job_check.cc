// What a job's buffers hold before and after: Prepare, Result and CountWrong of job.h.
#include <algorithm>
#include <cstring>

#include "bench/weft_perf/job.h"

namespace weft::perf {

DataKey Job::Key(uint64_t seed) const {
  const Reduction* reduced = operation->reduces ? reduction : nullptr;
  return {type, reduced, ranks, seed, std::max(extent.send_count, extent.recv_count)};
}

std::vector<Piece> Job::Result() const {
  const size_t count = extent.count;
  const auto self = static_cast<size_t>(rank);
  const bool has_result = !operation->rooted || rank == root;
  std::vector<Piece> pieces;
  // From each rank the block that begins at `first` in its input.
  const auto collect = [&](size_t first) {
    for (int from = 0; from < ranks; ++from)
      pieces.push_back({from, first, static_cast<size_t>(from) * count, count});
  };
  switch (operation->kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      if (has_result) pieces.push_back({Piece::kReduced, 0, 0, count});
      break;
    case OperationKind::kReduceScatter:
      pieces.push_back({Piece::kReduced, self * count, 0, count});
      break;
    case OperationKind::kBroadcast:
      pieces.push_back({root, 0, 0, count});
      break;
    case OperationKind::kScatter:
      pieces.push_back({root, self * count, 0, count});
      break;
    case OperationKind::kSendRecv:
      pieces.push_back({(rank + ranks - 1) % ranks, 0, 0, count});
      break;
    case OperationKind::kAllGather:
    case OperationKind::kHyperCube:
    case OperationKind::kGather:
      if (has_result) collect(0);
      break;
    case OperationKind::kAllToAll:
      collect(self * count);
      break;
    case OperationKind::kAllToAllV:
      for (int from = 0; from < ranks; ++from) {
        const auto source = static_cast<size_t>(from);
        size_t before = 0;  // what `from` sends to the ranks below this one
        for (int to = 0; to < rank; ++to) {
          before +=
              traffic->Bytes(from, to, ranks, count * static_cast<size_t>(ranks) * type->size) /
              type->size;
        }
        pieces.push_back(
            {from, before, blocks.out_displacements[source], blocks.out_counts[source]});
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
  return pieces;
}

// Of a result that all ranks have in one place each rank writes its share. In place that is its own input, or the
// root's alone.
void Job::SetSharedCanaries() const {
  const size_t region = recv_region();
  const size_t share = region / static_cast<size_t>(ranks);
  const bool roots = in_place && operation->rooted;
  const size_t begin = roots ? 0 : share * static_cast<size_t>(rank);
  const size_t end = roots || rank == ranks - 1 ? region : begin + share;
  if (!roots || rank == root) std::memset(recv->data() + offset + begin, kCanary, end - begin);
  if (rank == 0) recv->SetCanaries(offset, region);
}

void Job::SetCanaries() const {
  if (shared_result) {
    SetSharedCanaries();
  } else {
    std::memset(recv->data() + offset, kCanary, recv_region());
    recv->SetCanaries(offset, recv_region());
  }
  if (!in_place) send->SetCanaries(offset, extent.send_bytes);
}

void Job::Prepare(uint64_t seed) const {
  SetCanaries();
  // In place in one buffer only the root's is an input.
  if (shared_result && in_place && operation->rooted && rank != root) return;
  Pattern::Input(Key(seed), rank).Fill(send_data(0), 0, extent.send_count);
}

void Job::PrepareBlocks(const Pattern& input) const {
  constexpr size_t kBetweenBlocks = 977;  // anything that is not a multiple of the pattern's period
  SetCanaries();
  const bool dealt = operation->layout == Layout::kDeals || operation->layout == Layout::kSwaps;
  const bool has_blocks = dealt || operation->layout == Layout::kTraffic;
  size_t at = 0;
  for (size_t to = 0; to < (has_blocks ? static_cast<size_t>(ranks) : 1); ++to) {
    const size_t whole = dealt ? extent.count : extent.send_count;
    const size_t count = blocks.in_counts.empty() ? whole : blocks.in_counts[to];
    input.Fill(send_data(0) + at * type->size, to * kBetweenBlocks, count);
    at += count;
  }
}

size_t Job::CountChangedCanariesAround() const {
  const size_t changed = recv->ChangedCanaries(offset, recv_region());
  return in_place ? changed : changed + send->ChangedCanaries(offset, extent.send_bytes);
}

// Elements [first, last) of the output buffer hold what Prepare left there: in place a part of the
// input, elsewhere canaries.
size_t Job::CountTouched(const Pattern& input, size_t first, size_t last) const {
  const unsigned char* region = recv->data() + offset;
  const size_t size = type->size;
  const size_t input_at = extent.send_in_place_step * static_cast<size_t>(rank);
  const size_t input_end = input_at + extent.send_count;
  const size_t from = in_place ? std::clamp(input_at, first, last) : last;
  const size_t to = in_place ? std::clamp(input_end, from, last) : last;
  return CountChangedCanaries(region + first * size, (from - first) * size) +
         input.CountWrong(region + from * size, from - input_at, to - from) +
         CountChangedCanaries(region + to * size, (last - to) * size);
}

size_t Job::CountWrongPieces(const DataKey& key) const {
  const Pattern input = Pattern::Input(key, rank);
  const size_t recv_at = in_place ? extent.recv_in_place_step * static_cast<size_t>(rank) : 0;
  size_t wrong = 0;
  size_t seen = 0;  // elements of the output buffer
  for (const Piece& piece : Result()) {
    const size_t at = recv_at + piece.at;
    wrong += CountTouched(input, seen, at);
    const Pattern expected =
        piece.from == Piece::kReduced ? Pattern::Reduced(key) : Pattern::Input(key, piece.from);
    wrong += expected.CountWrong(recv->data() + offset + at * type->size, piece.first, piece.count);
    seen = at + piece.count;
  }
  return wrong + CountTouched(input, seen, recv_region() / type->size);
}

size_t Job::CountWrong(uint64_t seed) const {
  const DataKey key = Key(seed);
  size_t wrong = CountWrongPieces(key);
  if (!in_place) {
    wrong += Pattern::Input(key, rank).CountWrong(send_data(0), 0, extent.send_count);
  }
  return wrong + CountChangedCanariesAround();
}

}  // namespace weft::perf
