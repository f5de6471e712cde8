#include "comm/hierarchy/span_call.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/cache_line.h"

namespace weft {
namespace {

// Blocks one behind the other, from the first element on.
bool ArePacked(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  size_t begin = 0;
  for (size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0 && offsets[block] != begin) return false;
    begin += counts[block];
  }
  return true;
}

bool Overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

std::byte* Take(NetBuffers& buffers, size_t bytes, NetBuffer* buffer) {
  *buffer = buffers.Take(bytes);
  return buffer->data();
}

}  // namespace

SpanCall::SpanCall(const Collective& call, int rank, const SpanPlan& plan,
                   std::shared_ptr<NetBuffers> buffers)
    : call_(call),
      rank_(rank),
      size_(plan.schedule().goal().participants),
      schedule_(plan.schedule()),
      arithmetic_(plan.arithmetic()),
      buffers_(std::move(buffers)) {}

bool SpanCall::exchanges() const {
  return TraitsOf(call_.kind).local_counts;
}

// Elements of this rank's contribution.
size_t SpanCall::InputUnits() const {
  const ScheduleGoal& goal = schedule_.goal();
  return goal.Reduces() ? goal.VectorUnits() : BufferUnits(goal, rank_, kInputBuffer);
}

bool SpanCall::InputIsPacked() const {
  if (TraitsOf(call_.kind).iov) return false;
  return call_.kind != OpKind::kReduceScatterV ||
         ArePacked(call_.layout->in_counts, call_.layout->in_offsets);
}

bool SpanCall::OutputIsPacked() const {
  if (TraitsOf(call_.kind).iov) return false;
  return call_.kind != OpKind::kAllGatherV ||
         ArePacked(call_.layout->out_counts, call_.layout->out_offsets);
}

void SpanCall::PackInput(std::byte* to) const {
  const int blocks = TraitsOf(call_.kind).in_blocks ? size_ : 1;
  for (int block = 0; block < blocks; ++block) {
    const size_t count = InCount(call_, block);
    CopyIn(call_, block, 0, count, to);
    to += count * ElementBytes(call_);
  }
}

void SpanCall::MultiplyInput(const std::byte* from, std::byte* to) const {
  const void* const source = from;
  void* const destination = to;
  arithmetic_.first()({.sources = &source,
                       .source_count = 1,
                       .destinations = &destination,
                       .destination_count = 1,
                       .count = InputUnits(),
                       .divisor = 0,
                       .factors = &call_.custom->factor});
}

RunMemory SpanCall::Begin() {
  const size_t element_bytes = ElementBytes(call_);
  const bool multiplies = TraitsOf(call_.kind).reduces && call_.op == kOpPremulSum;
  RunMemory memory{.input = const_cast<std::byte*>(static_cast<const std::byte*>(call_.in)),
                   .output = static_cast<std::byte*>(call_.out)};
  const bool has_input = HasInput(call_, rank_) && (exchanges() || InputUnits() > 0);
  if (has_input && !exchanges() && !InputIsPacked()) {
    memory.input = Take(*buffers_, InputUnits() * element_bytes, &input_);
    PackInput(memory.input);
  }
  if (has_input && multiplies) {
    memory.partials =
        Take(*buffers_, InputUnits() * arithmetic_.BytesOf(UnitForm::kAccumulator), &partials_);
    MultiplyInput(memory.input, memory.partials);
  }
  const size_t out_bytes =
      exchanges() ? OutputBytes(call_, size_)
                  : BufferUnits(schedule_.goal(), rank_, kOutputBuffer) * element_bytes;
  if (!exchanges() && !OutputIsPacked()) {
    unpacked_ = Take(*buffers_, out_bytes, &output_);
    memory.output = unpacked_;
  }
  const size_t in_bytes = exchanges() ? InputBytes(call_, size_) : InputUnits() * element_bytes;
  const bool copies = has_input && !multiplies && !schedule_.in_place() &&
                      Overlap(memory.input, in_bytes, memory.output, out_bytes);
  if (copies) {
    std::byte* const copy = Take(*buffers_, in_bytes, &input_);
    std::memcpy(copy, memory.input, in_bytes);
    memory.input = copy;
  }
  return memory;
}

void SpanCall::Finish() {
  if (unpacked_ == nullptr) return;
  const std::byte* from = unpacked_;
  const int blocks = TraitsOf(call_.kind).out_blocks ? size_ : 1;
  for (int block = 0; block < blocks; ++block) {
    const size_t count = OutCount(call_, block);
    CopyOut(call_, block, 0, count, from);
    from += count * ElementBytes(call_);
  }
}

}  // namespace weft
