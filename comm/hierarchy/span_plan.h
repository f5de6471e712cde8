// What all calls of one shape have in common: the schedule, the kernels, and what carried out those that have ended, to be used again.
// A program makes few shapes of calls and many calls of each, and making a schedule costs as much as sending a small message.
//
//   SpanPlans plans(rank, islands, links, foreign, isa, buffers);
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanPlan> plan, plans.PlanOf(call));
//   std::unique_ptr<SpanRun> run = plan->TakeRun();
//   run->engine.Begin({..., .scratch = run->scratch.data()}, route);
//   ... until it is done
//   plan->Keep(std::move(run));
//
// Thread-safety: none; the group's lock. A plan lives as long as its runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/engine/schedule_run.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/foreign_schedules.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/hierarchy/span_schedule.h"
#include "comm/kernels/isa.h"
#include "comm/schedule/schedule.h"

namespace weft {

// One call under way.
struct SpanRun {
  ScheduleRun engine;
  NetBuffer scratch;
};

class SpanPlan {
 public:
  SpanPlan(ChosenSchedule chosen, int rank, const UnitArithmetic& arithmetic,
           std::shared_ptr<NetBuffers> buffers);
  SpanPlan(const SpanPlan&) = delete;
  SpanPlan& operator=(const SpanPlan&) = delete;

  const CollectiveSchedule& schedule() const { return *schedule_; }

  const UnitArithmetic& arithmetic() const { return arithmetic_; }

  // Beside the call's, in what its messages carry: of a schedule that is the user's.
  uint32_t signature() const { return signature_; }

  // std::bad_alloc if there is no memory.
  std::unique_ptr<SpanRun> TakeRun();

  // One that is done.
  void Keep(std::unique_ptr<SpanRun> run);

 private:
  const std::unique_ptr<CollectiveSchedule> schedule_;
  const uint32_t signature_;
  const int rank_;
  const UnitArithmetic arithmetic_;
  const size_t scratch_bytes_;
  const std::shared_ptr<NetBuffers> buffers_;
  std::vector<std::unique_ptr<SpanRun>> kept_;
};

class SpanPlans {
 public:
  // `islands`, `links` and `foreign` are borrowed.
  SpanPlans(int rank, const Islands& islands, const LinkModel& links,
            const ForeignSchedules& foreign, Isa isa, std::shared_ptr<NetBuffers> buffers)
      : rank_(rank),
        islands_(islands),
        foreign_(foreign),
        choices_(islands, links),
        isa_(isa),
        buffers_(std::move(buffers)) {}

  // Of a call that was checked. UNSUPPORTED if no schedule does it.
  absl::StatusOr<std::shared_ptr<SpanPlan>> PlanOf(const Collective& call);

 private:
  // Of calls that are alike in these; lists of counts and users' functions are not looked at, and their plans not kept.
  struct Shape {
    OpKind kind = OpKind::kBarrier;
    weft_dtype_t dtype = WEFT_UINT8;
    weft_op_t op = WEFT_SUM;
    weft_numerics_t numerics = WEFT_NUMERICS_CANONICAL;
    int32_t root = 0;
    size_t count = 0;

    friend bool operator==(const Shape&, const Shape&) = default;
  };

  struct Kept {
    Shape shape;
    uint64_t used = 0;  // when last, in calls
    std::shared_ptr<SpanPlan> plan;
  };

  absl::StatusOr<std::shared_ptr<SpanPlan>> Make(const Collective& call);

  const int rank_;
  const Islands& islands_;
  const ForeignSchedules& foreign_;
  SpanChoices choices_;
  const Isa isa_;
  const std::shared_ptr<NetBuffers> buffers_;
  uint64_t calls_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace weft
