// What a collective is for a group over several islands: the schedule of it, the kernels, and where its units lie.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<SpanCall> span, SpanCall::Make(call, rank, islands, isa, buffers));
//   ScheduleRun run(span->schedule(), rank, span->Begin(), span->arithmetic(), route);
//   ... run, until it is done
//   span->Finish();
//
// A schedule knows vectors and blocks that lie side by side. Calls whose parts lie elsewhere are packed before and unpacked after
// it; what goes between two ranks alone (all_to_all, gather and scatter with counts) is sent from where it lies.
//
// A premul_sum is multiplied here, before it travels: what is added are accumulators then, as the product is not rounded on one node either.
//
// Thread-safety: none. Borrows the call's memory between Begin() and Finish().
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "comm/engine/schedule_run.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/kernels/isa.h"
#include "comm/schedule/schedule.h"

namespace weft {

class SpanCall {
 public:
  // UNSUPPORTED if no schedule does it.
  static absl::StatusOr<std::unique_ptr<SpanCall>> Make(const Collective& call, int rank,
                                                        const Islands& islands, Isa isa,
                                                        std::shared_ptr<NetBuffers> buffers);

  SpanCall(const Collective& call, int rank, int size, std::unique_ptr<CollectiveSchedule> schedule,
           const UnitArithmetic& arithmetic, std::shared_ptr<NetBuffers> buffers);
  SpanCall(const SpanCall&) = delete;
  SpanCall& operator=(const SpanCall&) = delete;

  const CollectiveSchedule& schedule() const { return *schedule_; }

  const UnitArithmetic& arithmetic() const { return arithmetic_; }

  // Makes the input ready. The memory is this object's, or the caller's.
  RunMemory Begin();
  // The output gets what is not there yet.
  void Finish();

 private:
  bool exchanges() const;
  size_t InputUnits() const;
  bool InputIsPacked() const;
  bool OutputIsPacked() const;
  void PackInput(std::byte* to) const;
  void MultiplyInput(const std::byte* from, std::byte* to) const;

  const Collective& call_;
  const int rank_;
  const int size_;
  const std::unique_ptr<CollectiveSchedule> schedule_;
  const UnitArithmetic arithmetic_;
  const std::shared_ptr<NetBuffers> buffers_;
  NetBuffer scratch_;
  NetBuffer input_;
  NetBuffer partials_;
  NetBuffer output_;
  std::byte* unpacked_ = nullptr;  // the output, if it is not where the caller wants it
};

}  // namespace weft
