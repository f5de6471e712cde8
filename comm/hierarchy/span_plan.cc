#include "comm/hierarchy/span_plan.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "comm/group/number_hash.h"

namespace weft {
namespace {

constexpr size_t kPlansMax = 64;
// Of one shape, with scratch of their own as long as that is small; more calls than these are seldom under way.
constexpr size_t kRunsMax = 4;
constexpr size_t kScratchMax = 64 << 10;

// Ranks that would carry out one call by two schedules are to be told so, not to add up what does not belong together.
uint32_t SignatureOf(const CollectiveSchedule& schedule) {
  NumberHash hash;
  for (const char letter : schedule.algorithm())
    hash.Add(static_cast<unsigned char>(letter));
  hash.Add(static_cast<uint64_t>(schedule.segments()));
  return hash.Get32();
}

}  // namespace

SpanPlan::SpanPlan(ChosenSchedule chosen, int rank, const UnitArithmetic& arithmetic,
                   std::shared_ptr<NetBuffers> buffers)
    : schedule_(std::move(chosen.schedule)),
      signature_(chosen.foreign == nullptr ? SignatureOf(*schedule_) : chosen.foreign->Signature()),
      rank_(rank),
      arithmetic_(arithmetic),
      scratch_bytes_(ScheduleRun::ScratchBytes(*schedule_, rank, arithmetic_)),
      buffers_(std::move(buffers)) {}

std::unique_ptr<SpanRun> SpanPlan::TakeRun() {
  std::unique_ptr<SpanRun> run;
  if (kept_.empty()) {
    run.reset(new SpanRun{ScheduleRun(*schedule_, rank_, arithmetic_), {}});
  } else {
    run = std::move(kept_.back());
    kept_.pop_back();
  }
  if (scratch_bytes_ > 0 && run->scratch.data() == nullptr)
    run->scratch = buffers_->Take(scratch_bytes_);
  return run;
}

void SpanPlan::Keep(std::unique_ptr<SpanRun> run) {
  if (kept_.size() >= kRunsMax) return;
  if (scratch_bytes_ > kScratchMax) run->scratch = {};
  kept_.push_back(std::move(run));
}

absl::StatusOr<std::shared_ptr<SpanPlan>> SpanPlans::Make(const Collective& call) {
  const int size = static_cast<int>(islands_.island_of.size());
  WEFT_ASSIGN_OR_RETURN(ChosenSchedule chosen,
                        ChooseSchedule(call, rank_, islands_, foreign_, choices_));
  UnitArithmetic arithmetic(ElementBytes(call));
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.reduces) {
    const int combined = CombinedRanks(traits, rank_, size);
    arithmetic = call.op == kOpUser ? UnitArithmetic::OfUser(*call.custom, call.dtype)
                                    : UnitArithmetic::Of(isa_, call.dtype, call.op, combined);
  }
  return std::make_shared<SpanPlan>(std::move(chosen), rank_, arithmetic, buffers_);
}

absl::StatusOr<std::shared_ptr<SpanPlan>> SpanPlans::PlanOf(const Collective& call) {
  if (call.layout != nullptr || call.custom != nullptr || call.strict_algorithm) return Make(call);
  ++calls_;
  const Shape shape{call.kind, call.dtype, call.op, call.numerics, call.root, call.count};
  for (Kept& kept : kept_) {
    if (kept.shape != shape) continue;
    kept.used = calls_;
    return kept.plan;
  }
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanPlan> plan, Make(call));
  if (kept_.size() < kPlansMax) {
    kept_.push_back({shape, calls_, plan});
  } else {
    *std::min_element(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) {
      return a.used < b.used;
    }) = {shape, calls_, plan};
  }
  return plan;
}

}  // namespace weft
