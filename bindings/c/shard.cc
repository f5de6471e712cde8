// The C interface of include/weft/shard.h over shard/: meshes, contexts, units, params.
#include "weft/shard.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"
#include "shard/layout/mesh.h"

namespace weft::shard_calls {

absl::StatusOr<std::vector<MeshAxis>> ReadAxes(const char* call, const weft_mesh_config_t& config) {
  std::vector<MeshAxis> axes;
  if (config.axis_count < 0 || config.axis_count > WEFT_MESH_AXES_MAX) {
    return Invalid(call, StrCat("axis_count is ", config.axis_count, "; 0 to ", WEFT_MESH_AXES_MAX,
                                " are possible"));
  }
  for (int i = 0; i < config.axis_count; ++i) {
    if (config.axis_names[i] == nullptr) {
      return Invalid(call, StrCat("the name of axis ", i, " is NULL; give it one"));
    }
    axes.push_back({config.axis_names[i], config.axis_sizes[i]});
  }
  return axes;
}

namespace {

// The plan has every call of a step.
constexpr int kMicrobatchesMax = 4096;

absl::StatusOr<weft_shard_allocator_t> ReadAllocator(const weft_shard_allocator_t* allocator) {
  constexpr char kCall[] = "shard_context_create";
  weft_shard_allocator_t copy{};
  if (allocator == nullptr) return copy;
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, allocator, &copy));
  if (copy.allocate != nullptr && copy.release != nullptr) return copy;
  return Invalid(kCall, StrCat(copy.allocate == nullptr ? "allocate" : "release",
                               " of the allocator is NULL; give it both functions, or pass no "
                               "allocator"));
}

absl::StatusOr<ContextOptions> ReadOptions(const weft_shard_config_t* config) {
  constexpr char kCall[] = "shard_context_create";
  weft_shard_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, config, &copy));
  const int accumulation = NumberOf(copy.accumulation);
  if (accumulation < WEFT_SHARD_LOCAL_THEN_REDUCE ||
      accumulation > WEFT_SHARD_INNER_EVERY_OUTER_LAST) {
    return Invalid(kCall, StrCat("accumulation is ", accumulation,
                                 "; use a value of weft_shard_accumulation_t"));
  }
  if (copy.timeout_ns < 0) {
    return Invalid(kCall, StrCat("timeout_ns is ", copy.timeout_ns,
                                 "; use 0 for the group's deadline or a positive number"));
  }
  ContextOptions options;
  if (copy.bucket_bytes != 0) options.limits.bucket_bytes = copy.bucket_bytes;
  if (copy.first_bucket_bytes != 0) options.limits.first_bucket_bytes = copy.first_bucket_bytes;
  options.accumulation = copy.accumulation;
  options.overlap = copy.no_overlap == 0;
  options.average = copy.no_average == 0;
  options.timeout_ns = copy.timeout_ns;
  if (copy.prefetch < -1 || copy.microbatches < 0 || copy.microbatches > kMicrobatchesMax) {
    return Invalid(kCall,
                   StrCat("prefetch is ", copy.prefetch, ", microbatches ", copy.microbatches,
                          "; use -1 (none), 0 (the default) or a positive number, and 0 "
                          "(one) or a number up to ",
                          kMicrobatchesMax));
  }
  if (copy.prefetch != 0) options.prefetch = std::max(copy.prefetch, 0);
  if (copy.microbatches != 0) options.microbatches = copy.microbatches;
  options.budget_bytes = copy.memory_budget_bytes;
  options.uneven = copy.uneven != 0;
  WEFT_ASSIGN_OR_RETURN(options.memory.allocator, ReadAllocator(copy.allocator));
  options.memory.poison = copy.poison != 0;
  if (copy.verify_steps < 0) {
    return Invalid(kCall, StrCat("verify_steps is ", copy.verify_steps,
                                 "; use 0 (never) or a positive number"));
  }
  options.verify_steps = copy.verify_steps;
  return options;
}

absl::Status CheckPlaces(const char* call, const weft_shard_policy_t& policy) {
  for (const weft_shard_place_t* const place :
       {&policy.params, &policy.between, &policy.gradients, &policy.optimizer}) {
    const int number = NumberOf(*place);
    if (number < WEFT_SHARD_PLACE_BY_PRESET || number > WEFT_SHARD_PLACE_SHARDED_INNER) {
      return Invalid(call, StrCat("a place is ", number, "; use a value of weft_shard_place_t"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> ReadPolicy(const char* call, const weft_shard_policy_t* policy) {
  weft_shard_policy_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, policy, &copy));
  const int preset = NumberOf(copy.preset);
  if (preset < 0 || preset > WEFT_SHARD_FRACTION) {
    return Invalid(call, StrCat("preset is ", preset, "; use a value of weft_shard_preset_t"));
  }
  const int cut = NumberOf(copy.cut);
  if (cut < WEFT_SHARD_CUT_FLAT || cut > WEFT_SHARD_CUT_TENSOR) {
    return Invalid(call, StrCat("cut is ", cut, "; use a value of weft_shard_cut_t"));
  }
  if (copy.cut_rows < 0) {
    return Invalid(call, StrCat("cut_rows is ", copy.cut_rows, "; use 0 or a positive number"));
  }
  Placement placement = PlacementOf(copy.preset);
  if (cut == WEFT_SHARD_CUT_BLOCK) placement.cut = CutRule::kRows;
  if (cut == WEFT_SHARD_CUT_TENSOR) placement.cut = CutRule::kParams;
  placement.float32_gradients = copy.float32_gradients != 0;
  if (copy.cut_rows > 0) placement.cut_rows = static_cast<size_t>(copy.cut_rows);
  const int wire = NumberOf(copy.wire);
  if (wire < WEFT_SHARD_WIRE_GRADIENTS || wire > WEFT_SHARD_WIRE_FLOAT16) {
    return Invalid(call, StrCat("wire is ", wire, "; use a value of weft_shard_wire_t"));
  }
  placement.wire = copy.wire;
  WEFT_RETURN_IF_ERROR(CheckPlaces(call, copy));
  return Replace(placement, {copy.params, copy.between, copy.gradients, copy.optimizer});
}

absl::Status CheckParam(const char* call, const char* name, const int64_t* shape, int ndim,
                        uint32_t flags) {
  if (name == nullptr) return Invalid(call, "name is NULL; give the parameter a name");
  if (shape == nullptr && ndim > 0) {
    return Invalid(call, StrCat("shape of ", name, " is NULL; pass its ", ndim, " dimensions"));
  }
  if ((flags & ~(WEFT_SHARD_PARAM_FROZEN | WEFT_SHARD_PARAM_NO_DECAY)) == 0) {
    return absl::OkStatus();
  }
  return Invalid(call, StrCat("flags of ", name, " are ", flags,
                              "; WEFT_SHARD_PARAM_FROZEN and WEFT_SHARD_PARAM_NO_DECAY are "
                              "possible"));
}

namespace {

absl::Status MeshCreate(weft_group_t group, const weft_mesh_config_t* config, weft_mesh_t* out) {
  WEFT_RETURN_IF_ERROR(CheckOut("mesh_create", out, "mesh"));
  if (!IsGroup(group)) {
    return Invalid("mesh_create", "group is NULL or not a live group; pass a weft_group_t");
  }
  WEFT_RETURN_IF_ERROR(CheckGroup("mesh_create", group));
  std::shared_ptr<ProcessGroup> ranks = group->group;
  weft_mesh_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig("mesh_create", config, &copy));
  WEFT_ASSIGN_OR_RETURN(std::vector<MeshAxis> axes, ReadAxes("mesh_create", copy));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Mesh> mesh,
                        Mesh::Create(std::move(ranks), std::move(axes)));
  *out = new weft_mesh{.mesh = std::move(mesh), .axis_groups = {}};
  for (size_t axis = 0; axis < (*out)->mesh->axes().size(); ++axis) {
    (*out)->axis_groups.push_back({.group = (*out)->mesh->axis_group(axis)});
  }
  return absl::OkStatus();
}

absl::Status AxisGroup(weft_mesh_t mesh, int axis, weft_group_t* group) {
  WEFT_RETURN_IF_ERROR(CheckOut("mesh_axis_group", group, "group"));
  WEFT_RETURN_IF_ERROR(Check("mesh_axis_group", mesh));
  if (mesh->mesh->dry()) {
    return MakeError(WEFT_INVALID_USAGE, {.operation = "mesh_axis_group"},
                     "mesh_axis_group: the mesh is dry: its ranks do not exist, so there is no "
                     "group; make it with weft_mesh_create");
  }
  if (axis < 0 || static_cast<size_t>(axis) >= mesh->axis_groups.size()) {
    return Invalid("mesh_axis_group", StrCat("axis is ", axis, ", the mesh has ",
                                             mesh->axis_groups.size(), "; count from 0"));
  }
  *group = &mesh->axis_groups[static_cast<size_t>(axis)];
  return absl::OkStatus();
}

absl::Status MeshDestroy(weft_mesh_t mesh) {
  if (mesh == nullptr) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(Check("mesh_destroy", mesh));
  if (const long users = mesh->mesh.use_count() - 1; users > 0) {
    return MakeError(
        WEFT_INVALID_USAGE, {.operation = "mesh_destroy"},
        StrCat("mesh_destroy: ", users, " shard contexts use the mesh; destroy them first"));
  }
  delete mesh;
  return absl::OkStatus();
}

absl::Status ContextCreate(weft_mesh_t mesh, const weft_shard_config_t* config,
                           weft_shard_context_t* out) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_context_create", out, "context"));
  WEFT_RETURN_IF_ERROR(Check("shard_context_create", mesh));
  WEFT_ASSIGN_OR_RETURN(const ContextOptions options, ReadOptions(config));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Create(mesh->mesh, options));
  *out = new weft_shard_context{.context = std::move(context)};
  return absl::OkStatus();
}

absl::Status ContextDestroy(weft_shard_context_t context) {
  if (context == nullptr) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(Check("shard_context_destroy", context));
  delete context;
  return absl::OkStatus();
}

absl::Status UnitBegin(weft_shard_context_t context, const char* name,
                       const weft_shard_policy_t* policy, weft_shard_unit_t* out) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_unit_begin", out, "unit"));
  WEFT_RETURN_IF_ERROR(Check("shard_unit_begin", context));
  if (name == nullptr) return Invalid("shard_unit_begin", "name is NULL; give the unit a name");
  WEFT_ASSIGN_OR_RETURN(const Placement placement, ReadPolicy("shard_unit_begin", policy));
  WEFT_ASSIGN_OR_RETURN(const int index, context->context->BeginUnit(name, placement));
  context->units.push_back({.owner = context, .index = index});
  *out = &context->units.back();
  return absl::OkStatus();
}

absl::Status UnitAddParam(weft_shard_unit_t unit, const char* name, const int64_t* shape, int ndim,
                          weft_dtype_t dtype, uint32_t flags, weft_shard_param_t* out) {
  constexpr char kCall[] = "shard_unit_add_param";
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, out, "param"));
  WEFT_RETURN_IF_ERROR(Check(kCall, unit));
  WEFT_RETURN_IF_ERROR(CheckParam(kCall, name, shape, ndim, flags));
  weft_shard_context* const owner = unit->owner;
  WEFT_ASSIGN_OR_RETURN(const int index,
                        owner->context->AddParam(unit->index, name, shape, ndim, dtype,
                                                 (flags & WEFT_SHARD_PARAM_FROZEN) != 0,
                                                 (flags & WEFT_SHARD_PARAM_NO_DECAY) == 0));
  owner->params.push_back({.owner = owner, .index = index});
  *out = &owner->params.back();
  return absl::OkStatus();
}

absl::Status UnitTieParam(weft_shard_unit_t unit, const char* name, weft_shard_param_t param,
                          weft_shard_param_t* out) {
  constexpr char kCall[] = "shard_unit_tie_param";
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, out, "tied"));
  WEFT_RETURN_IF_ERROR(Check(kCall, unit));
  WEFT_RETURN_IF_ERROR(Check(kCall, param));
  if (name == nullptr) return Invalid(kCall, "name is NULL; give the tied parameter a name");
  weft_shard_context* const owner = unit->owner;
  if (param->owner != owner) {
    return Invalid(kCall, "param belongs to another context; tie params of one context");
  }
  WEFT_RETURN_IF_ERROR(owner->context->TieParam(unit->index, name, param->index));
  owner->params.push_back({.owner = owner, .index = param->index});
  *out = &owner->params.back();
  return absl::OkStatus();
}

absl::Status View(weft_shard_param_t param, weft_shard_view_t* view) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_param_view", view, "view"));
  WEFT_RETURN_IF_ERROR(CheckAnswer("shard_param_view", view));
  WEFT_RETURN_IF_ERROR(Check("shard_param_view", param));
  WEFT_ASSIGN_OR_RETURN(const ParamView found, param->owner->context->View(param->index));
  const weft_shard_view_t made = {.data = found.data,
                                  .grad = found.grad,
                                  .count = found.count,
                                  .dtype = found.dtype,
                                  .grad_dtype = found.grad_dtype};
  WriteAnswer(made, view);
  return absl::OkStatus();
}

absl::Status GetPart(weft_shard_param_t param, weft_shard_part_t* part) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_param_part", part, "part"));
  WEFT_RETURN_IF_ERROR(CheckAnswer("shard_param_part", part));
  WEFT_RETURN_IF_ERROR(Check("shard_param_part", param));
  WEFT_ASSIGN_OR_RETURN(const auto found, param->owner->context->OwnPart(param->index));
  const auto& [view, begin] = found;
  const weft_shard_part_t made = {.data = view.data,
                                  .grad = view.grad,
                                  .begin = begin,
                                  .count = view.count,
                                  .dtype = view.dtype,
                                  .grad_dtype = view.grad_dtype};
  WriteAnswer(made, part);
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                               weft_mesh_t* mesh) {
  return Guarded([&] { return calls::MeshCreate(group, config, mesh); });
}

weft_result_t weft_mesh_axis_group(weft_mesh_t mesh, int axis, weft_group_t* group) {
  return Guarded([&] { return calls::AxisGroup(mesh, axis, group); });
}

weft_result_t weft_mesh_destroy(weft_mesh_t mesh) {
  return Guarded([&] { return calls::MeshDestroy(mesh); });
}

weft_result_t weft_shard_context_create(weft_mesh_t mesh, const weft_shard_config_t* config,
                                        weft_shard_context_t* context) {
  return Guarded([&] { return calls::ContextCreate(mesh, config, context); });
}

weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_context_broadcast", context));
    return context->context->Broadcast(root);
  });
}

weft_result_t weft_shard_context_verify(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_context_verify", context));
    return context->context->Verify();
  });
}

weft_result_t weft_shard_context_destroy(weft_shard_context_t context) {
  return Guarded([&] { return calls::ContextDestroy(context); });
}

weft_result_t weft_shard_unit_begin(weft_shard_context_t context, const char* name,
                                    const weft_shard_policy_t* policy, weft_shard_unit_t* unit) {
  return Guarded([&] { return calls::UnitBegin(context, name, policy, unit); });
}

weft_result_t weft_shard_unit_add_param(weft_shard_unit_t unit, const char* name,
                                        const int64_t* shape, int ndim, weft_dtype_t dtype,
                                        uint32_t flags, weft_shard_param_t* param) {
  return Guarded([&] { return calls::UnitAddParam(unit, name, shape, ndim, dtype, flags, param); });
}

weft_result_t weft_shard_unit_tie_param(weft_shard_unit_t unit, const char* name,
                                        weft_shard_param_t param, weft_shard_param_t* tied) {
  return Guarded([&] { return calls::UnitTieParam(unit, name, param, tied); });
}

weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_unit_seal", unit));
    return unit->owner->context->SealUnit(unit->index);
  });
}

weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view) {
  return Guarded([&] { return calls::View(param, view); });
}

weft_result_t weft_shard_param_part(weft_shard_param_t param, weft_shard_part_t* part) {
  return Guarded([&] { return calls::GetPart(param, part); });
}

weft_result_t weft_shard_params_updated(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_params_updated", context));
    return context->context->Updated();
  });
}

weft_result_t weft_shard_param_load(weft_shard_param_t param, const void* values, int root) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_param_load", param));
    return param->owner->context->Load(param->index, values, root);
  });
}

weft_result_t weft_shard_param_read(weft_shard_param_t param, void* values) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_param_read", param));
    return param->owner->context->Read(param->index, values);
  });
}

}  // extern "C"
