// A call of a step, as it is checked, recorded, replayed, and told in messages.
//
//   const Event event{Event::Kind::kPreForward, unit};
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <utility>

#include "weft/shard.h"

namespace weft {

struct Event {
  enum class Kind : uint8_t {
    // What a schedule is made from, in the order of a step.
    kMicrobatchBegin,
    kPreForward,
    kPostForward,
    kPreBackward,
    kPostBackward,
    kUnshard,
    kReshard,
    kMicrobatchEnd,
    kFinish,
    // What changes nothing that is gathered.
    kStepBegin,
    kJoin,
    kUnshardWait,
    kGradReady,
    kReduceWait,
    kGradientNorm,
    kOptimizerStep,
    kDropGradients,
    kStepEnd,
  };
  Kind kind = Kind::kFinish;
  // The unit, the param, or the micro-batch. A schedule's micro-batches have no number, as they are compared: 1 for
  // the step's last one, else 0.
  int index = 0;
  bool operator==(const Event&) const = default;

  // pre_forward to reshard: a call with a unit.
  bool UsesUnit() const { return kind >= Kind::kPreForward && kind <= Kind::kReshard; }
};

// A mode and a tag: steps that make the same calls.
using StepKind = std::pair<weft_shard_mode_t, uint64_t>;

// "pre_forward".
const char* CallName(Event::Kind kind);

}  // namespace weft
