#include "comm/node/prepared_call.h"

#include "base/check.h"

namespace weft {
namespace {

// The bytes of this rank's buffers, as weft_group_stats counts them.
PlainBuffers BuffersOf(const Collective& call, const CallShape& shape, const NodeState& state) {
  PlainBuffers buffers;
  if (call.layout == nullptr) {
    WEFT_CHECK(
        MeasureBuffers(call, state.rank, state.size, &buffers));  // CheckCollective has asked
    return buffers;
  }
  const OpTraits& traits = *shape.traits;
  const auto ranks = static_cast<size_t>(state.size);
  if (traits.iov) {
    buffers.in_bytes = shape.block_bytes * (traits.in_blocks ? ranks : 1);
    buffers.out_bytes = shape.block_bytes * (traits.out_blocks ? ranks : 1);
  } else {
    buffers.in_bytes = InputBytes(call, state.size);
    buffers.out_bytes = OutputBytes(call, state.size);
  }
  if (!shape.has_input) buffers.in_bytes = 0;
  if (!shape.has_output) buffers.out_bytes = 0;
  return buffers;
}

// From this size on the lines of a slot cost more than finding the place of a ring's.
constexpr size_t kRingSlotBytesMin = 4096;

// Ranks that combine have a place for a result of each of the few slots, and these are in the CPUs' caches anyhow. Ranks
// that write where they read last want to come back there soon.
CallSize SlotOf(const CallShape& shape, const NodeState& state) {
  const bool few = shape.contribution_bytes < kRingSlotBytesMin || state.tuning.combine != 0 ||
                   state.slots.swap();
  return few ? CallSize::kSlot : CallSize::kRingSlot;
}

CallSize SizeOf(const Collective& call, const CallShape& shape, const NodeState& state) {
  if (state.size == 1 && call.layout == nullptr) return CallSize::kAlone;
  switch (call.algorithm) {
    case Algorithm::kInline:
      return CallSize::kInline;
    case Algorithm::kSlot:
      return SlotOf(shape, state);
    case Algorithm::kDirect:
    case Algorithm::kStaged:
    case Algorithm::kSingleCopy:
      return shape.traits->local_counts ? CallSize::kRows : CallSize::kLarge;
    case Algorithm::kAuto:
      break;
  }
  if (shape.traits->local_counts) return CallSize::kRows;
  if (shape.contribution_bytes <= InlineBytes(call)) return CallSize::kInline;
  return shape.contribution_bytes <= state.tuning.slot_limit_bytes ? SlotOf(shape, state)
                                                                   : CallSize::kLarge;
}

// Alike on all ranks whose signatures are equal. What a user's function may touch is known to its caller only.
Meeting MeetingOf(const Collective& call, const CallShape& shape, CallSize size,
                  const NodeState& state) {
  if (state.tuning.combine == 0) return Meeting::kLines;
  const OpTraits& traits = *shape.traits;
  const bool same_for_all = traits.reduces && !traits.in_blocks && !traits.root_out;
  const bool combined =
      size == CallSize::kSlot && same_for_all && call.op != kOpUser && shape.contribution_bytes > 0;
  return combined ? Meeting::kCombined : Meeting::kWord;
}

}  // namespace

PreparedCall::PreparedCall(const Collective& of, const NodeState& state)
    : key(KeyOf(of)), call(of), shape(of, state.rank, state.size), identity(IdentityOf(of)) {
  buffers = BuffersOf(of, shape, state);
  size = SizeOf(of, shape, state);
  signature = SignatureOf(identity, size == CallSize::kInline);
  recorded = RecorderRing::ArgumentsOf({.kind = of.kind,
                                        .dtype = of.dtype,
                                        .op = of.op,
                                        .algorithm = static_cast<uint8_t>(of.algorithm),
                                        .epoch = state.epoch,
                                        .count = of.count,
                                        .root = of.root,
                                        .signature = signature,
                                        .tag = of.tag,
                                        .purpose = of.purpose.record});
  meeting = MeetingOf(of, shape, size, state);
  announces_more = meeting != Meeting::kLines || (of.op == kOpPremulSum && shape.traits->reduces);
  if (shape.traits->reduces && of.custom == nullptr) {
    kernel = FindReduceKernel(state.isa, of.dtype, of.op);
  }
}

}  // namespace weft
