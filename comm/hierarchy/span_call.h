// Where the units of a collective lie that is carried out by a schedule.
//
//   SpanCall span(call, rank, plan, buffers);
//   run.Begin(span.Begin(), route);
//   ... until it is done
//   span.Finish();
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

#include "comm/engine/schedule_run.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/hierarchy/span_plan.h"
#include "comm/schedule/schedule.h"

namespace weft {

class SpanCall {
 public:
  // All are borrowed but the buffers.
  SpanCall(const Collective& call, int rank, const SpanPlan& plan,
           std::shared_ptr<NetBuffers> buffers);
  SpanCall(const SpanCall&) = delete;
  SpanCall& operator=(const SpanCall&) = delete;

  // Makes the input ready. The memory is this object's, or the caller's; there is no scratch in it.
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
  const CollectiveSchedule& schedule_;
  const UnitArithmetic& arithmetic_;
  const std::shared_ptr<NetBuffers> buffers_;
  NetBuffer input_;
  NetBuffer partials_;
  NetBuffer output_;
  std::byte* unpacked_ = nullptr;  // the output, if it is not where the caller wants it
};

}  // namespace weft
