// The C interface of include/weft/shard_plan.h over shard/: meshes without ranks, plans, finalize.
#include "weft/shard_plan.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"
#include "shard/layout/mesh.h"

namespace weft::shard_calls {
namespace {

absl::Status MeshCreateDry(const weft_mesh_config_t* config, int rank, weft_mesh_t* out) {
  constexpr char kCall[] = "mesh_create_dry";
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, out, "mesh"));
  weft_mesh_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, config, &copy));
  WEFT_ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ReadAxes(kCall, copy));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Mesh> mesh, Mesh::CreateDry(std::move(axes), rank));
  *out = new weft_mesh{.mesh = std::move(mesh), .axis_groups = {}};
  return absl::OkStatus();
}

absl::Status ContextPlan(weft_shard_context_t context, weft_shard_plan_t* plan) {
  constexpr char kCall[] = "shard_context_plan";
  WEFT_RETURN_IF_ERROR(Check(kCall, context));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, plan, "plan"));
  WEFT_RETURN_IF_ERROR(CheckAnswer(kCall, plan));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, context->context->Plan());
  WriteAnswer(made, plan);
  return absl::OkStatus();
}

absl::Status ContextFinalize(weft_shard_context_t context, weft_shard_plan_t* plan) {
  WEFT_RETURN_IF_ERROR(Check("shard_context_finalize", context));
  if (plan != nullptr) {
    WEFT_RETURN_IF_ERROR(CheckAnswer("shard_context_finalize", plan));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, context->context->Finalize());
  if (plan != nullptr) WriteAnswer(made, plan);
  return absl::OkStatus();
}

absl::Status ParamInterval(weft_shard_param_t param, int rank, size_t* begin, size_t* count) {
  constexpr char kCall[] = "shard_param_interval";
  WEFT_RETURN_IF_ERROR(Check(kCall, param));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, begin, "begin"));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, count, "count"));
  WEFT_ASSIGN_OR_RETURN(const OwnedElements owned,
                        param->owner->context->Interval(param->index, rank));
  *begin = owned.begin;
  *count = owned.count;
  return absl::OkStatus();
}

absl::Status HintOrder(weft_shard_context_t context, const weft_shard_unit_t* units, size_t n) {
  constexpr char kCall[] = "shard_hint_order";
  WEFT_RETURN_IF_ERROR(Check(kCall, context));
  if (units == nullptr && n > 0) {
    return Invalid(kCall, StrCat("units is NULL; pass ", n, " units"));
  }
  std::vector<int> order;
  for (size_t i = 0; i < n; ++i) {
    WEFT_RETURN_IF_ERROR(Check(kCall, units[i]));
    if (units[i]->owner != context) {
      return Invalid(kCall, StrCat("units[", i, "] is of another context; pass units of this one"));
    }
    order.push_back(units[i]->index);
  }
  return context->context->HintOrder(order);
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_mesh_create_dry(const weft_mesh_config_t* config, int rank, weft_mesh_t* mesh) {
  return Guarded([&] { return calls::MeshCreateDry(config, rank, mesh); });
}

weft_result_t weft_shard_context_plan(weft_shard_context_t context, weft_shard_plan_t* plan) {
  return Guarded([&] { return calls::ContextPlan(context, plan); });
}

weft_result_t weft_shard_param_interval(weft_shard_param_t param, int rank, size_t* begin,
                                        size_t* count) {
  return Guarded([&] { return calls::ParamInterval(param, rank, begin, count); });
}

weft_result_t weft_shard_hint_order(weft_shard_context_t context, const weft_shard_unit_t* units,
                                    size_t n) {
  return Guarded([&] { return calls::HintOrder(context, units, n); });
}

weft_result_t weft_shard_context_finalize(weft_shard_context_t context, weft_shard_plan_t* plan) {
  return Guarded([&] { return calls::ContextFinalize(context, plan); });
}

}  // extern "C"
