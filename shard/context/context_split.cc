// Context, calls in two forms, to start and to wait: for programs that order communication themselves.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

namespace weft {

// Waits for room in the pool if it has to, so that gathers start in the order of these calls on every rank.
absl::Status Context::UnshardStart(int unit) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("unshard_start"));
    WEFT_RETURN_IF_ERROR(machine_->state.UnshardStart(unit));
    WEFT_RETURN_IF_ERROR(Note({Event::Kind::kUnshard, unit}));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &Residence::Begin));
  Section section(*this);
  return Latch(machine_->residence.Served());
}

absl::Status Context::UnshardWait(int unit) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("unshard_wait"));
    WEFT_RETURN_IF_ERROR(machine_->state.UnshardWait(unit));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &Residence::Need));
  Section section(*this);
  machine_->state.Unsharded(unit);
  return absl::OkStatus();
}

absl::Status Context::Reshard(int unit) {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckUsable("reshard"));
  WEFT_RETURN_IF_ERROR(machine_->state.Reshard(unit));
  WEFT_RETURN_IF_ERROR(Note({Event::Kind::kReshard, unit}));
  WEFT_RETURN_IF_ERROR(LetGoUsed(unit, /*in_backward=*/false));
  return Latch(machine_->residence.Served());
}

// A bucket whose turn has not come waits for other units' gradients, which this thread may be the one to give.
absl::Status Context::CheckReducing(int unit) {
  WEFT_RETURN_IF_ERROR(machine_->state.CheckReduceWait(unit));
  if (!options_.overlap) {
    return machine_->state.NotInUse(
        "reduce_wait", unit,
        "the context does not overlap: reductions start when the micro-batch has ended; wait in "
        "finish");
  }
  if (!ReducesThisMicrobatch() || (keeps_sums() && !machine_->state.last_microbatch())) {
    return machine_->state.NotInUse(
        "reduce_wait", unit,
        "gradients are not reduced to the end in this micro-batch; wait in the step's last one");
  }
  const std::vector<int>& order = machine_->order;
  const std::vector<Bucket>& buckets = machine_->layout.buckets;
  for (size_t i = machine_->next_bucket; i < order.size(); ++i) {
    const std::vector<int>& units = buckets[static_cast<size_t>(order[i])].units;
    if (std::find(units.begin(), units.end(), unit) == units.end()) continue;
    const int first = buckets[static_cast<size_t>(order[machine_->next_bucket])].units.front();
    return machine_->state.NotInUse(
        "reduce_wait", unit,
        StrCat("its reduction has not started, as that of unit ",
               registry_.units()[static_cast<size_t>(first)].name,
               " comes first and is not complete: run its backward, or wait in finish"));
  }
  return absl::OkStatus();
}

absl::Status Context::ReduceWait(int unit) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("reduce_wait"));
    WEFT_RETURN_IF_ERROR(CheckReducing(unit));
  }
  const std::vector<Bucket>& buckets = machine_->layout.buckets;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const std::vector<int>& units = buckets[bucket].units;
    if (std::find(units.begin(), units.end(), unit) == units.end()) continue;
    for (;;) {
      Works left;
      {
        Section section(*this);
        WEFT_RETURN_IF_ERROR(Advance());
        left = machine_->reduction.Left(static_cast<int>(bucket));
      }
      if (left.empty()) break;
      WEFT_RETURN_IF_ERROR(
          WaitForWorks(left, StrCat("reducing gradient bucket ", bucket, ": "), &times_.waited_ns));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
