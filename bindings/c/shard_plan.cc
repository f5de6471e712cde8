// The C interface of include/weft/shard_plan.h over shard/: plans, finalize.
#include "weft/shard_plan.h"

#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace calls = weft::shard_calls;
using weft::Guarded;

namespace {

// Of runs[i]; `forwarded`: the units that have run forward before.
absl::Status CheckRun(const char* call, weft_shard_context_t context, const weft_shard_run_t& run,
                      size_t i, const std::set<int>& forwarded) {
  WEFT_RETURN_IF_ERROR(calls::Check(call, run.unit));
  if (run.unit->owner != context) {
    return calls::Invalid(
        call, weft::StrCat("runs[", i, "].unit is of another context; pass units of this one"));
  }
  if (run.backward != 0 && run.backward != 1) {
    return calls::Invalid(call, weft::StrCat("runs[", i, "].backward is ", run.backward,
                                             "; pass 0 for forward, 1 for backward"));
  }
  if (run.backward == 0 || forwarded.count(run.unit->index) > 0) return absl::OkStatus();
  return calls::Invalid(call,
                        weft::StrCat("runs[", i, "] is backward of unit ", run.unit->name,
                                     ", which has not run forward before; put its forward first"));
}

}  // namespace

extern "C" {

weft_result_t weft_shard_context_plan(weft_shard_context_t context, weft_shard_plan_t* plan) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_plan";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, plan, "plan"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, plan));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, context->context->Plan());
    weft::WriteAnswer(made, plan);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_param_interval(weft_shard_param_t param, int rank, size_t* begin,
                                        size_t* count) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_interval";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, begin, "begin"));
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, count, "count"));
    const absl::StatusOr<weft::OwnedElements> owned =
        param->owner->context->Interval(param->index, rank);
    if (!owned.ok()) return calls::About(*param, owned.status());
    *begin = owned->begin;
    *count = owned->count;
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_hint_order(weft_shard_context_t context, const weft_shard_unit_t* units,
                                    size_t n) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_hint_order";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (units == nullptr && n > 0) {
      return calls::Invalid(kCall, weft::StrCat("units is NULL; pass ", n, " units"));
    }
    std::vector<int> order;
    for (size_t i = 0; i < n; ++i) {
      WEFT_RETURN_IF_ERROR(calls::Check(kCall, units[i]));
      if (units[i]->owner != context) {
        return calls::Invalid(
            kCall, weft::StrCat("units[", i, "] is of another context; pass units of this one"));
      }
      order.push_back(units[i]->index);
    }
    return context->context->builder().HintOrder(order);
  });
}

weft_result_t weft_shard_hint_runs(weft_shard_context_t context, const weft_shard_run_t* runs,
                                   size_t n) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_hint_runs";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (runs == nullptr && n > 0) {
      return calls::Invalid(kCall, weft::StrCat("runs is NULL; pass ", n, " runs"));
    }
    std::vector<weft::UnitRun> hinted;
    std::set<int> forwarded;
    for (size_t i = 0; i < n; ++i) {
      WEFT_RETURN_IF_ERROR(CheckRun(kCall, context, runs[i], i, forwarded));
      const int unit = runs[i].unit->index;
      forwarded.insert(unit);
      hinted.push_back({unit, runs[i].backward == 1});
    }
    return context->context->builder().HintRuns(hinted);
  });
}

weft_result_t weft_shard_unit_within(weft_shard_unit_t unit, weft_shard_unit_t outer) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_unit_within";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, unit));
    if (outer == nullptr) return calls::Invalid(kCall, "outer is NULL; pass a unit");
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, outer));
    if (outer->owner != unit->owner) {
      return calls::Invalid(kCall, "outer is of another context; pass a unit of this one");
    }
    return unit->owner->context->builder().NestUnit(unit->index, outer->index);
  });
}

weft_result_t weft_shard_context_finalize(weft_shard_context_t context, weft_shard_plan_t* plan) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_context_finalize", context));
    if (plan != nullptr) {
      WEFT_RETURN_IF_ERROR(weft::CheckAnswer("shard_context_finalize", plan));
    }
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, context->context->Finalize());
    if (plan != nullptr) weft::WriteAnswer(made, plan);
    return absl::OkStatus();
  });
}

}  // extern "C"
