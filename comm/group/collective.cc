#include "comm/group/collective.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// As numbers: what a caller passes is measured before NULL is refused.
Span SpanAt(const void* base, size_t first, size_t element, size_t limit) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(base) + first * element), limit};
}

// The memory from element `begin` of a block to the end of the part that holds it, on one side.
Span IovSpan(const BlockLayout& layout, bool in, bool blocks, int block, size_t begin, size_t limit,
             size_t element) {
  const auto after = std::upper_bound(layout.starts.begin(), layout.starts.end(), begin);
  const auto index = static_cast<size_t>(after - layout.starts.begin()) - 1;
  const weft_iov_t& part = layout.parts[index];
  const size_t within = begin - layout.starts[index];
  const size_t first = (blocks ? static_cast<size_t>(block) * part.count : 0) + within;
  return SpanAt(in ? part.in : part.out, first, element, std::min(limit, part.count - within));
}

}  // namespace

const char* OpKindName(OpKind kind) {
  return static_cast<int>(kind) < kOpKindCount ? TraitsOf(kind).name : "unknown";
}

std::optional<OpKind> FindOpKind(std::string_view name) {
  for (int i = 0; i < kOpKindCount; ++i) {
    if (kOpTraits[i].name == name) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

const char* CallName(OpKind kind, uint64_t purpose_record) {
  const char* const whole = WholeCallName(UnpackPurpose(purpose_record));
  return whole != nullptr ? whole : OpKindName(kind);
}

bool HasRoot(OpKind kind) {
  const OpTraits& traits = TraitsOf(kind);
  return traits.root_in || traits.root_out || kind == OpKind::kGatherV || kind == OpKind::kScatterV;
}

size_t LaidOutExtent(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  size_t end = 0;
  for (size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0) end = std::max(end, offsets[block] + counts[block]);
  }
  return end;
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

Span InSpan(const Collective& call, int block, size_t begin, size_t limit) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) {
    return IovSpan(*call.layout, true, traits.in_blocks, block, begin, limit, ElementBytes(call));
  }
  return SpanAt(call.in, InOffset(call, block) + begin, ElementBytes(call), limit);
}

Span OutSpan(const Collective& call, int block, size_t begin, size_t limit) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) {
    return IovSpan(*call.layout, false, traits.out_blocks, block, begin, limit, ElementBytes(call));
  }
  return SpanAt(call.out, OutOffset(call, block) + begin, ElementBytes(call), limit);
}

void CopyIn(const Collective& call, int block, size_t begin, size_t count, void* to) {
  const size_t element = ElementBytes(call);
  for (size_t done = 0; done < count;) {
    const Span span = InSpan(call, block, begin + done, count - done);
    std::memcpy(static_cast<char*>(to) + done * element, span.memory, span.count * element);
    done += span.count;
  }
}

void CopyOut(const Collective& call, int block, size_t begin, size_t count, const void* from) {
  const size_t element = ElementBytes(call);
  for (size_t done = 0; done < count;) {
    const Span span = OutSpan(call, block, begin + done, count - done);
    const char* const source = static_cast<const char*>(from) + done * element;
    if (span.memory != source) std::memcpy(span.memory, source, span.count * element);
    done += span.count;
  }
}

}  // namespace weft
