#include "comm/recorder/ring.h"

namespace weft {

std::optional<RecordedCall> RecorderRing::Decode(const RecorderWords& words) {
  const uint64_t kind = words[kWhat] & 0xff;
  const auto dtype = static_cast<weft_dtype_t>(words[kWhat] >> 8 & 0xff);
  const uint64_t op_byte = words[kWhat] >> 16 & 0xff;
  const auto op = static_cast<weft_op_t>(
      op_byte < kInternalOps ? op_byte : op_byte - kInternalOps + kOpPremulSum);
  const uint64_t state = words[kState] & 0xff;
  const bool known = kind < kOpKindCount && IsDtype(dtype) && IsReductionOp(op) &&
                     state <= static_cast<uint64_t>(RecordState::kFailed);
  if (words[kSequence] == 0 || !known) return {};
  RecordedCall call;
  call.sequence = words[kSequence];
  call.ticks = words[kTicks];
  call.kind = static_cast<OpKind>(kind);
  call.dtype = dtype;
  call.op = op;
  call.algorithm = static_cast<uint8_t>(words[kWhat] >> 24 & 0x3f);
  if ((words[kWhat] & kFast) != 0) call.numerics = WEFT_NUMERICS_FAST;
  call.epoch = static_cast<uint32_t>(words[kWhat] >> 32);
  call.count = words[kCount];
  call.root = static_cast<int32_t>(words[kRootSignature] >> 32);
  call.signature = static_cast<uint32_t>(words[kRootSignature]);
  ((words[kWhat] & kHasPurpose) != 0 ? call.purpose : call.tag) = words[kTag];
  // A state of an older call: that one ended late, this one is still waiting.
  const bool own = words[kState] == StateWord(call.sequence, static_cast<RecordState>(state));
  call.state = own ? static_cast<RecordState>(state) : RecordState::kIssued;
  if (call.state != RecordState::kDone) {
    call.progress = UnpackProgress(words[kProgress], call.sequence / kEntryCount);
  }
  return call;
}

RecordedArguments RecorderRing::ArgumentsOf(const Collective& call, uint32_t epoch,
                                            uint32_t signature) {
  return ArgumentsOf({.kind = call.kind,
                      .dtype = call.dtype,
                      .op = call.op,
                      .algorithm = static_cast<uint8_t>(call.algorithm),
                      .numerics = call.numerics,
                      .epoch = epoch,
                      .count = call.count * ValuesPerElement(call),
                      .root = call.root,
                      .signature = signature,
                      .tag = call.tag,
                      .purpose = call.purpose.record});
}

std::optional<RecordedCall> RecorderRing::CallOf(const RecordedArguments& arguments) {
  RecorderWords words = {};
  words[kSequence] = 1;
  words[kWhat] = arguments.what;
  words[kCount] = arguments.count;
  words[kRootSignature] = arguments.root_signature;
  words[kTag] = arguments.tag;
  std::optional<RecordedCall> call = Decode(words);
  if (call) call->sequence = 0;
  return call;
}

std::optional<RecordedCall> RecorderRing::Find(uint64_t sequence) const {
  const RecorderWords words = Copy(sequence % kEntryCount);
  if (words[kSequence] != sequence) return {};
  return Decode(words);
}

std::optional<RecordedCall> RecorderRing::Last() const {
  uint64_t newest = 0;
  for (uint64_t i = 0; i < kEntryCount; ++i) {
    const uint64_t sequence = entries_[i].words[kSequence].load(std::memory_order_acquire);
    if (sequence > newest) newest = sequence;
  }
  return Find(newest);
}

}  // namespace weft
