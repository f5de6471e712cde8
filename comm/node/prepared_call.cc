#include "comm/node/prepared_call.h"

#include "base/check.h"
#include "comm/node/slot_protocol.h"

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

}  // namespace

PreparedCall::PreparedCall(const Collective& of, const NodeState& state)
    : key(KeyOf(of)),
      call(of),
      shape(of, state.rank, state.size),
      facts(FactsOf(of, state.size)),
      identity(IdentityOf(of)) {
  buffers = BuffersOf(of, shape, state);
  const Selection selection = SelectProtocol(facts, state.tuning, Reach{});
  protocol = selection.protocol;
  meeting = selection.meeting;
  if (protocol == Protocol::kAuto && !facts.local_counts && IsPlain(of)) {
    for (const bool direct : {false, true}) {
      for (const bool readable : {false, true}) {
        const Reach reach{.known = true, .direct = direct, .readable = readable};
        by_reach[direct][readable] = SelectProtocol(facts, state.tuning, reach).protocol;
      }
    }
  }
  slot_in_ring =
      protocol == Protocol::kSlot && SlotProtocol::InRing(shape.contribution_bytes, state);
  signature = SignatureOf(identity, protocol == Protocol::kInline);
  recorded = RecorderRing::ArgumentsOf(of, state.epoch, signature);
  announces_more = meeting != Meeting::kLines || (of.op == kOpPremulSum && shape.traits->reduces);
  if (shape.traits->reduces && of.custom == nullptr) {
    kernel = FindReduceKernel(state.isa, of.dtype, of.op);
  }
}

}  // namespace weft
