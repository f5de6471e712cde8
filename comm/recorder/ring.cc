#include "comm/recorder/ring.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "base/wait.h"
#endif

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcquire = std::memory_order_acquire;

// Words of an entry.
enum Word { kSequence, kTicks, kWhat, kCount, kRootSignature, kTag, kState };

// A reduction as one byte: those of weft/types.h by their numbers, the two internal ones of dtype.h
// from kInternalOps on, where weft/types.h has none.
constexpr uint64_t kInternalOps = 250;

uint64_t OpByte(weft_op_t op) {
  const auto number = static_cast<uint64_t>(op);
  return (op < kOpPremulSum ? number : number - kOpPremulSum + kInternalOps) & 0xff;
}

weft_op_t OpOfByte(uint64_t byte) {
  return static_cast<weft_op_t>(byte < kInternalOps ? byte : byte - kInternalOps + kOpPremulSum);
}

uint64_t StateWord(uint64_t sequence, RecordState state) {
  return sequence << 8 | static_cast<uint64_t>(state);
}

}  // namespace

uint64_t RecorderTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(MonotonicNs());
#endif
}

void RecorderRing::Record(const RecordedCall& call) {
  std::atomic<uint64_t>* const words = At(call.sequence).words;
  words[kSequence].store(0, kRelease);
  words[kTicks].store(RecorderTicks(), kRelease);
  words[kWhat].store(static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.dtype) << 8 |
                         OpByte(call.op) << 16 | static_cast<uint64_t>(call.algorithm) << 24 |
                         static_cast<uint64_t>(call.epoch) << 32,
                     kRelease);
  words[kCount].store(call.count, kRelease);
  words[kRootSignature].store(
      static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32 | call.signature, kRelease);
  words[kTag].store(call.tag, kRelease);
  words[kState].store(StateWord(call.sequence, call.state), kRelease);
  words[kSequence].store(call.sequence, kRelease);
}

void RecorderRing::SetState(uint64_t sequence, RecordState state) {
  At(sequence).words[kState].store(StateWord(sequence, state), kRelease);
}

RecorderWords RecorderRing::Copy(uint64_t index) const {
  const std::atomic<uint64_t>* const words = entries_[index].words;
  RecorderWords copy{};
  const uint64_t sequence = words[kSequence].load(kAcquire);
  for (size_t word = 1; word < copy.size(); ++word)
    copy[word] = words[word].load(kAcquire);
  copy[kSequence] = words[kSequence].load(kAcquire) == sequence ? sequence : 0;
  return copy;
}

std::optional<RecordedCall> RecorderRing::Decode(const RecorderWords& words) {
  const uint64_t kind = words[kWhat] & 0xff;
  const auto dtype = static_cast<weft_dtype_t>(words[kWhat] >> 8 & 0xff);
  const weft_op_t op = OpOfByte(words[kWhat] >> 16 & 0xff);
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
  call.algorithm = static_cast<uint8_t>(words[kWhat] >> 24 & 0xff);
  call.epoch = static_cast<uint32_t>(words[kWhat] >> 32);
  call.count = words[kCount];
  call.root = static_cast<int32_t>(words[kRootSignature] >> 32);
  call.signature = static_cast<uint32_t>(words[kRootSignature]);
  call.tag = words[kTag];
  // A state of an older call: that one ended late, this one is still waiting.
  const bool own = words[kState] == StateWord(call.sequence, static_cast<RecordState>(state));
  call.state = own ? static_cast<RecordState>(state) : RecordState::kIssued;
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
