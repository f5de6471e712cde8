// What can be wrong with a collective's arguments, found before anything is sent: a rank that stops in the middle leaves its
// peers waiting. So all that a rank can know alone is checked here; what takes the others is left to the signature. Blocks
// are looked at one by one only for calls with a layout, and sorted, since they may lie in any order.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/per_thread.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/group/collective.h"
#include "comm/group/plain_buffers.h"
#include "comm/group/process_group.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "fmt/format.h"

namespace weft {

absl::Status InvalidCall(const Collective& call, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = OpKindName(call.kind)},
                   fmt::format("{}: {}", OpKindName(call.kind), what));
}

namespace {

absl::Status Overlapping(const Collective& call) {
  return InvalidCall(call, "in and out overlap without being in place; use one buffer or two");
}

// Bytes in memory, not empty.
struct Range {
  uintptr_t begin;
  uintptr_t end;
};

struct RangesOfCall {
  std::vector<Range> ins;
  std::vector<Range> outs;
};

// The thread's own, which a later call of as many blocks need not allocate.
RangesOfCall& ClearedRanges() {
  RangesOfCall& ranges = PerThread<RangesOfCall>::Get();
  ranges.ins.clear();
  ranges.outs.clear();
  return ranges;
}

Range RangeOf(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return {begin, begin + bytes};
}

// The blocks of one side, but for block `skipped` and those that are empty.
void AddRanges(const Collective& call, int rank, int size, bool in, int skipped,
               std::vector<Range>* ranges) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (in ? !HasInput(call, rank) : !HasOutput(call, rank)) return;
  const int blocks = (in ? traits.in_blocks : traits.out_blocks) ? size : 1;
  const size_t element = ElementBytes(call);
  for (int block = 0; block < blocks; ++block) {
    const size_t count = in ? InCount(call, block) : OutCount(call, block);
    if (count == 0 || block == skipped) continue;
    const Span span = in ? InSpan(call, block, 0, count) : OutSpan(call, block, 0, count);
    ranges->push_back(RangeOf(span.memory, count * element));
  }
}

bool Before(const Range& a, const Range& b) {
  return a.begin < b.begin;
}

// Sorts them; true if two share a byte.
bool SortAndFindOverlap(std::vector<Range>* ranges) {
  std::sort(ranges->begin(), ranges->end(), Before);
  for (size_t i = 1; i < ranges->size(); ++i) {
    if ((*ranges)[i].begin < (*ranges)[i - 1].end) return true;
  }
  return false;
}

// `sorted` do not overlap each other.
bool OverlapsAny(const std::vector<Range>& sorted, const Range& range) {
  const auto after = std::lower_bound(sorted.begin(), sorted.end(), Range{range.end, 0}, Before);
  return after != sorted.begin() && std::prev(after)->end > range.begin;
}

absl::Status TooLarge(const Collective& call, int size) {
  return InvalidCall(call,
                     fmt::format("{} elements of {} on {} ranks do not fit in memory",
                                 call.count * ValuesPerElement(call), DtypeName(call.dtype), size));
}

// The one allowed overlap of each vector form; the headers state it.
bool InPlace(const Collective& call, int rank) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (call.kind == OpKind::kAllToAllV) {
    const BlockLayout& layout = *call.layout;
    return call.in == call.out && layout.in_counts == layout.out_counts &&
           layout.in_offsets == layout.out_offsets;
  }
  // Where one side has a block for each rank, the other is the own one of them.
  return InSpan(call, traits.in_blocks ? rank : 0, 0, 0).memory ==
         OutSpan(call, traits.out_blocks ? rank : 0, 0, 0).memory;
}

// Buffers without gaps, one count: the usual case, which must cost nothing.
absl::Status CheckPlain(const Collective& call, int rank, int size) {
  PlainBuffers buffers;
  if (!MeasureBuffers(call, rank, size, &buffers)) return TooLarge(call, size);
  if (buffers.Allow(call.in, call.out)) return absl::OkStatus();
  if (buffers.in_bytes != 0 && call.in == nullptr) return InvalidCall(call, "in is NULL");
  if (buffers.out_bytes != 0 && call.out == nullptr) return InvalidCall(call, "out is NULL");
  return Overlapping(call);
}

absl::Status CheckVectorBuffers(const Collective& call, int rank, int size) {
  auto& [ins, outs] = ClearedRanges();
  constexpr int kNone = -1;
  AddRanges(call, rank, size, true, kNone, &ins);
  AddRanges(call, rank, size, false, kNone, &outs);
  if (!ins.empty() && call.in == nullptr) return InvalidCall(call, "in is NULL");
  if (!outs.empty() && call.out == nullptr) return InvalidCall(call, "out is NULL");
  if (SortAndFindOverlap(&outs)) return InvalidCall(call, "blocks of out overlap each other");
  if (ins.empty() || outs.empty()) return absl::OkStatus();
  if (InPlace(call, rank)) {
    if (call.kind == OpKind::kAllToAllV) return absl::OkStatus();
    ins.clear();  // the own block is the one that may be both
    AddRanges(call, rank, size, true, TraitsOf(call.kind).in_blocks ? rank : 0, &ins);
  }
  for (const Range& in : ins) {
    if (OverlapsAny(outs, in)) return Overlapping(call);
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const Collective& call, int rank, int size) {
  std::vector<Range>& outs = ClearedRanges().outs;
  const OpTraits& traits = TraitsOf(call.kind);
  const size_t element = ElementBytes(call);
  const size_t in_blocks = traits.in_blocks ? static_cast<size_t>(size) : 1;
  const size_t out_blocks = traits.out_blocks ? static_cast<size_t>(size) : 1;
  const auto in_place = [&](const weft_iov_t& part) {
    const size_t own = static_cast<size_t>(rank) * part.count * element;
    return static_cast<const char*>(part.in) + (traits.in_blocks ? own : 0) ==
           static_cast<const char*>(part.out) + (traits.out_blocks ? own : 0);
  };
  for (size_t i = 0; i < call.layout->parts.size(); ++i) {
    const weft_iov_t& part = call.layout->parts[i];
    if (part.count == 0) continue;
    if (part.in == nullptr) return InvalidCall(call, fmt::format("in of part {} is NULL", i));
    if (part.out == nullptr) return InvalidCall(call, fmt::format("out of part {} is NULL", i));
    outs.push_back(RangeOf(part.out, part.count * out_blocks * element));
  }
  if (SortAndFindOverlap(&outs)) return InvalidCall(call, "outs of two parts overlap each other");
  for (size_t i = 0; i < call.layout->parts.size(); ++i) {
    const weft_iov_t& part = call.layout->parts[i];
    if (part.count == 0) continue;
    const Range in = RangeOf(part.in, part.count * in_blocks * element);
    bool overlaps = false;
    if (in_place(part)) {  // what lies before and behind the own block
      const size_t own = traits.in_blocks ? static_cast<size_t>(rank) * part.count * element : 0;
      const uintptr_t behind = in.begin + own + part.count * element;
      overlaps = (own > 0 && OverlapsAny(outs, {in.begin, in.begin + own})) ||
                 (behind < in.end && OverlapsAny(outs, {behind, in.end}));
    } else {
      overlaps = OverlapsAny(outs, in);
    }
    if (overlaps) {
      return InvalidCall(call,
                         fmt::format("in of part {} overlaps an out without being in place", i));
    }
  }
  return absl::OkStatus();
}

// Elements of the larger side, or of all ranks together; false if the number does not fit.
bool LargestSide(const Collective& call, int size, size_t* elements) {
  if (TraitsOf(call.kind).iov) {
    return !__builtin_mul_overflow(call.count, static_cast<size_t>(size), elements);
  }
  const BlockLayout& layout = *call.layout;
  *elements = call.count;
  const auto widen = [&](const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
    for (size_t i = 0; i < counts.size(); ++i) {
      size_t end = 0;
      if (__builtin_add_overflow(counts[i], offsets[i], &end)) return false;
      *elements = std::max(*elements, counts[i] == 0 ? 0 : end);
    }
    return true;
  };
  return widen(layout.in_counts, layout.in_offsets) && widen(layout.out_counts, layout.out_offsets);
}

}  // namespace

absl::Status CheckCollective(const Collective& call, int rank, int size) {
  if (call.kind == OpKind::kBarrier) return absl::OkStatus();
  if (DtypeSize(call.dtype) == 0) {
    return InvalidCall(call, fmt::format("{} is not a data type", static_cast<int>(call.dtype)));
  }
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.reduces) {
    const absl::Status reduction = CheckReduction(call.dtype, call.op, call.custom.get());
    if (!reduction.ok()) return InvalidCall(call, FromAbsl(reduction.message()));
  }
  if ((call.root < 0 || call.root >= size) && HasRoot(call.kind)) {
    return InvalidCall(call,
                       fmt::format("root {} is not one of the ranks 0..{}", call.root, size - 1));
  }
  if (call.layout == nullptr) return CheckPlain(call, rank, size);
  size_t total = 0;
  if (!LargestSide(call, size, &total) ||
      __builtin_mul_overflow(total, ElementBytes(call), &total) || total > PTRDIFF_MAX) {
    return TooLarge(call, size);
  }
  return traits.iov ? CheckParts(call, rank, size) : CheckVectorBuffers(call, rank, size);
}

}  // namespace weft
