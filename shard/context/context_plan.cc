// Context, the part of set-up that needs no peers: plans, hints, and units declared together.
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

namespace weft {

namespace {

absl::Status Declare(const std::vector<ParamSpec>& params, const std::vector<ParamGroup>& groups,
                     const Placement& placement, Registry& registry) {
  for (const ParamGroup& group : groups) {
    WEFT_ASSIGN_OR_RETURN(const int unit, registry.BeginUnit(group.name, placement));
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      const ParamSpec& param = params[i];
      WEFT_RETURN_IF_ERROR(registry
                               .AddParam(unit, param.name, param.shape.data(),
                                         static_cast<int>(param.shape.size()), param.dtype,
                                         param.frozen, param.decays)
                               .status());
    }
    WEFT_RETURN_IF_ERROR(registry.SealUnit(unit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::pair<int, int>> Context::AddUnits(const std::vector<ParamSpec>& params,
                                                      const std::vector<ParamGroup>& groups,
                                                      const Placement& placement) {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("shard_add_units"));
  const std::pair<int, int> first(static_cast<int>(registry_.units().size()),
                                  static_cast<int>(registry_.params().size()));
  const absl::Status declared = Declare(params, groups, placement, registry_);
  if (!declared.ok()) {
    registry_.DropUnits(static_cast<size_t>(first.first));
    return Annotate(declared, "shard_add_units: ");
  }
  planned_.reset();
  return first;
}

absl::Status Context::HintOrder(const std::vector<int>& order) {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("hint_order"));
  order_ = order;
  planned_.reset();
  return absl::OkStatus();
}

PlanInput Context::PlanInputOf() const {
  return {.registry = &registry_,
          .order = order_.empty() ? nullptr : &order_,
          .optimizer = optimizer_config_.has_value() ? &*optimizer_config_ : nullptr,
          .member = {.rank = mesh_->rank(), .size = mesh_->size()},
          .inner = {.rank = mesh_->inner_rank(), .size = mesh_->inner_size()},
          .limits = options_.limits,
          .accumulate = accumulate(),
          .overlap = options_.overlap,
          .prefetch = options_.prefetch,
          .budget_bytes = options_.budget_bytes,
          .microbatches = options_.microbatches};
}

absl::StatusOr<const ContextPlan*> Context::Planned(std::string_view call) {
  constexpr std::string_view kFinalize = "finalize";  // adds its name itself, with the rank
  WEFT_RETURN_IF_ERROR(CheckSealed(call));
  WEFT_RETURN_IF_ERROR(CheckMesh(call));
  if (!planned_.has_value()) {
    absl::StatusOr<ContextPlan> made = MakePlan(PlanInputOf());
    if (!made.ok() && call != kFinalize) return Annotate(made.status(), StrCat(call, ": "));
    WEFT_RETURN_IF_ERROR(made.status());
    planned_ = *std::move(made);
  }
  return &*planned_;
}

absl::StatusOr<weft_shard_plan_t> Context::Plan() {
  Section section(*this);
  if (machine_ != nullptr) return machine_->plan;
  WEFT_ASSIGN_OR_RETURN(const ContextPlan* const planned, Planned("context_plan"));
  return planned->numbers;
}

absl::StatusOr<OwnedElements> Context::Interval(int param, int rank) {
  Section section(*this);
  if (rank < 0 || rank >= mesh_->size()) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_interval"},
                     StrCat("param_interval: rank is ", rank, ", the mesh has ", mesh_->size(),
                            " ranks; pass one from 0"));
  }
  const Layout* layout = nullptr;
  if (machine_ != nullptr) {
    layout = &machine_->layout;
  } else {
    WEFT_ASSIGN_OR_RETURN(const ContextPlan* const planned, Planned("param_interval"));
    layout = &planned->layout;
  }
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = layout->places[static_cast<size_t>(param)];
  const Placement& placement = layout->spaces[static_cast<size_t>(place.space)].placement;
  const bool cut = spec.frozen ? placement.params_cut : placement.optimizer_cut;
  if (!cut || spec.count == 0) return OwnedElements{0, spec.count};
  const Extent& extent = layout->extents[static_cast<size_t>(place.extent)];
  const int owner = placement.replicated ? rank % layout->inner.size : rank;
  return OwnedBy(extent, place, spec.count, static_cast<size_t>(owner));
}

}  // namespace weft
