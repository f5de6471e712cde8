#include "comm/group/collective.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr OpTraits kTraits[kOpKindCount] = {
    {.name = "barrier"},
    {.name = "all_reduce", .reduces = true},
    {.name = "reduce", .reduces = true, .root_out = true},
    {.name = "broadcast", .root_in = true},
    {.name = "all_gather", .out_blocks = true},
    {.name = "reduce_scatter", .reduces = true, .in_blocks = true},
    {.name = "gather", .root_out = true, .out_blocks = true},
    {.name = "scatter", .root_in = true, .in_blocks = true},
    {.name = "all_to_all", .in_blocks = true, .out_blocks = true},
    {.name = "all_gather_v", .out_blocks = true},
    {.name = "reduce_scatter_v", .reduces = true, .in_blocks = true},
    {.name = "gather_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "scatter_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "all_to_all_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "all_reduce_iov", .reduces = true, .iov = true},
    {.name = "all_gather_iov", .out_blocks = true, .iov = true},
    {.name = "reduce_scatter_iov", .reduces = true, .in_blocks = true, .iov = true},
};

// One side of a call.
struct Side {
  const char* base;
  bool blocks;
  const std::vector<size_t>* counts;   // nullptr: `count` each
  const std::vector<size_t>* offsets;  // likewise
};

Side InSide(const Collective& call) {
  Side side{static_cast<const char*>(call.in), TraitsOf(call.kind).in_blocks, nullptr, nullptr};
  if (call.layout != nullptr && !call.layout->in_counts.empty()) {
    side.counts = &call.layout->in_counts;
    side.offsets = &call.layout->in_offsets;
  }
  return side;
}

Side OutSide(const Collective& call) {
  Side side{static_cast<const char*>(call.out), TraitsOf(call.kind).out_blocks, nullptr, nullptr};
  if (call.layout != nullptr && !call.layout->out_counts.empty()) {
    side.counts = &call.layout->out_counts;
    side.offsets = &call.layout->out_offsets;
  }
  return side;
}

// Elements that a side spans.
size_t Extent(const Collective& call, const Side& side, int size) {
  if (side.counts == nullptr) return call.count * (side.blocks ? static_cast<size_t>(size) : 1);
  size_t end = 0;
  for (size_t block = 0; block < side.counts->size(); ++block) {
    if ((*side.counts)[block] > 0)
      end = std::max(end, (*side.offsets)[block] + (*side.counts)[block]);
  }
  return end;
}

// The pointer that part `index` has on the side with that base, and the part's elements per block.
Run IovRun(const BlockLayout& layout, bool in, bool blocks, int block, size_t begin, size_t limit,
           size_t element) {
  const auto after = std::upper_bound(layout.starts.begin(), layout.starts.end(), begin);
  const auto index = static_cast<size_t>(after - layout.starts.begin()) - 1;
  const weft_iov_t& part = layout.parts[index];
  const size_t within = begin - layout.starts[index];
  auto* const base = const_cast<char*>(
      static_cast<const char*>(in ? part.in : static_cast<const void*>(part.out)));
  const size_t first = (blocks ? static_cast<size_t>(block) * part.count : 0) + within;
  return {base + first * element, std::min(limit, part.count - within)};
}

size_t OffsetIn(const Collective& call, const Side& side, int block) {
  if (side.offsets != nullptr) return (*side.offsets)[static_cast<size_t>(block)];
  return side.blocks ? static_cast<size_t>(block) * call.count : 0;
}

Run RunOf(const Collective& call, const Side& side, int block, size_t begin, size_t limit) {
  const size_t first = OffsetIn(call, side, block) + begin;
  return {const_cast<char*>(side.base) + first * ElementBytes(call), limit};
}

}  // namespace

const OpTraits& TraitsOf(OpKind kind) {
  return kTraits[static_cast<size_t>(kind)];
}

const char* OpKindName(OpKind kind) {
  return static_cast<int>(kind) < kOpKindCount ? TraitsOf(kind).name : "unknown";
}

bool HasRoot(OpKind kind) {
  const OpTraits& traits = TraitsOf(kind);
  return traits.root_in || traits.root_out || kind == OpKind::kGatherV || kind == OpKind::kScatterV;
}

const char* AlgorithmName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kInline:
      return "inline";
    case Algorithm::kSlot:
      return "slot";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kStaged:
      return "staged";
  }
  return "unknown";
}

size_t ElementBytes(const Collective& call) {
  return TraitsOf(call.kind).reduces ? ElementBytes(call.dtype, call.op) : DtypeSize(call.dtype);
}

size_t InputBytes(const Collective& call, int size) {
  if (TraitsOf(call.kind).iov) return 0;
  return Extent(call, InSide(call), size) * ElementBytes(call);
}

size_t OutputBytes(const Collective& call, int size) {
  if (TraitsOf(call.kind).iov) return 0;
  return Extent(call, OutSide(call), size) * ElementBytes(call);
}

bool HasInput(const Collective& call, int rank) {
  return !TraitsOf(call.kind).root_in || call.root == rank;
}

bool HasOutput(const Collective& call, int rank) {
  return !TraitsOf(call.kind).root_out || call.root == rank;
}

size_t InCount(const Collective& call, int block) {
  const Side side = InSide(call);
  return side.counts == nullptr ? call.count : (*side.counts)[static_cast<size_t>(block)];
}

size_t OutCount(const Collective& call, int block) {
  const Side side = OutSide(call);
  return side.counts == nullptr ? call.count : (*side.counts)[static_cast<size_t>(block)];
}

size_t InOffset(const Collective& call, int block) {
  return OffsetIn(call, InSide(call), block);
}

size_t PackedCount(const Collective& call, int rank, int size) {
  if (!HasInput(call, rank)) return 0;
  if (call.kind == OpKind::kAllGatherV) return OutCount(call, rank);
  if (call.kind == OpKind::kReduceScatterV) return call.count;
  return call.count * (TraitsOf(call.kind).in_blocks ? static_cast<size_t>(size) : 1);
}

size_t PackedOffset(const Collective& call, int block) {
  if (!TraitsOf(call.kind).in_blocks) return 0;
  if (call.kind != OpKind::kReduceScatterV) return static_cast<size_t>(block) * call.count;
  size_t offset = 0;
  for (int before = 0; before < block; ++before)
    offset += InCount(call, before);
  return offset;
}

Run InRun(const Collective& call, int block, size_t begin, size_t limit) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) {
    return IovRun(*call.layout, true, traits.in_blocks, block, begin, limit, ElementBytes(call));
  }
  return RunOf(call, InSide(call), block, begin, limit);
}

Run OutRun(const Collective& call, int block, size_t begin, size_t limit) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) {
    return IovRun(*call.layout, false, traits.out_blocks, block, begin, limit, ElementBytes(call));
  }
  return RunOf(call, OutSide(call), block, begin, limit);
}

void CopyIn(const Collective& call, int block, size_t begin, size_t count, void* to) {
  const size_t element = ElementBytes(call);
  for (size_t done = 0; done < count;) {
    const Run run = InRun(call, block, begin + done, count - done);
    std::memcpy(static_cast<char*>(to) + done * element, run.memory, run.count * element);
    done += run.count;
  }
}

void CopyOut(const Collective& call, int block, size_t begin, size_t count, const void* from) {
  const size_t element = ElementBytes(call);
  for (size_t done = 0; done < count;) {
    const Run run = OutRun(call, block, begin + done, count - done);
    const char* const source = static_cast<const char*>(from) + done * element;
    if (run.memory != source) std::memcpy(run.memory, source, run.count * element);
    done += run.count;
  }
}

}  // namespace weft
