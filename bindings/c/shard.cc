// The C interface of include/weft/shard.h over shard/.
//
// Handles carry a mark that says what they are, so that one of another kind is an error and not a
// crash. A context's handle owns the handles of its units and params; pointers to those stay valid
// until the context is destroyed.
#include "weft/shard.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "shard/context.h"
#include "shard/mesh.h"

namespace {

enum class Mark : uint32_t {
  kMesh = 0x4853454d,
  kContext = 0x54584354,
  kUnit = 0x54494e55,
  kParam = 0x41524150,
};

}  // namespace

struct weft_mesh {
  Mark mark = Mark::kMesh;
  std::shared_ptr<const weft::Mesh> mesh;
  std::deque<weft_group> axis_groups;  // handles
};

struct weft_shard_unit {
  Mark mark = Mark::kUnit;
  weft_shard_context* owner = nullptr;
  int index = 0;
};

struct weft_shard_param {
  Mark mark = Mark::kParam;
  weft_shard_context* owner = nullptr;
  int index = 0;
};

struct weft_shard_context {
  Mark mark = Mark::kContext;
  std::unique_ptr<weft::Context> context;
  std::deque<weft_shard_unit> units;
  std::deque<weft_shard_param> params;
};

namespace {

using weft::Guarded;
using weft::MakeError;
using weft::ReadConfig;
using weft::StrCat;

absl::Status Invalid(std::string_view call, std::string_view what) {
  return weft::InvalidArgument(call, what);
}

template <typename T>
absl::Status CheckHandle(const char* call, const T* handle, Mark mark, const char* kind) {
  if (handle == nullptr) return Invalid(call, StrCat(kind, " is NULL; pass a handle"));
  if (handle->mark == mark) return absl::OkStatus();
  return Invalid(call, StrCat(kind, " is not the handle of a ", kind, "; pass one"));
}

absl::Status Check(const char* call, weft_mesh_t mesh) {
  return CheckHandle(call, mesh, Mark::kMesh, "mesh");
}

absl::Status Check(const char* call, weft_shard_context_t context) {
  return CheckHandle(call, context, Mark::kContext, "context");
}

absl::Status Check(const char* call, weft_shard_unit_t unit) {
  return CheckHandle(call, unit, Mark::kUnit, "unit");
}

absl::Status Check(const char* call, weft_shard_param_t param) {
  return CheckHandle(call, param, Mark::kParam, "param");
}

// `out` is where the call puts its answer.
absl::Status CheckOut(const char* call, const void* out, const char* name) {
  if (out != nullptr) return absl::OkStatus();
  return Invalid(call, StrCat(name, " is NULL; pass where the answer goes"));
}

// The stream of device memory, which this version has none of.
absl::Status CheckStream(const char* call, const void* stream) {
  if (stream == nullptr) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.operation = call},
                   StrCat(call,
                          ": a stream was passed, but parameters live in host memory; pass "
                          "NULL"));
}

// Answer structs grow at their end: struct_size says how much room there is, at least that of the
// first version, `least` bytes.
template <typename T>
absl::Status CheckAnswer(const char* call, const T* answer, size_t least = sizeof(T)) {
  if (answer->struct_size >= least && answer->struct_size <= sizeof(T)) return absl::OkStatus();
  return Invalid(
      call, StrCat("struct_size of the answer is ", answer->struct_size, ", this weft expects ",
                   sizeof(T), "; set it to the struct's sizeof before the call"));
}

// Fills as much of the caller's struct as it has.
template <typename T>
void WriteAnswer(const T& made, T* answer) {
  const size_t bytes = answer->struct_size;
  std::memcpy(answer, &made, bytes);
  answer->struct_size = bytes;
}

// The number in an enum that a caller filled, which need not be one of its values.
template <typename Enum>
int NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

absl::StatusOr<std::vector<weft::MeshAxis>> ReadAxes(const weft_mesh_config_t& config) {
  std::vector<weft::MeshAxis> axes;
  if (config.axis_count < 0 || config.axis_count > WEFT_MESH_AXES_MAX) {
    return Invalid("mesh_create", StrCat("axis_count is ", config.axis_count, "; 0 to ",
                                         WEFT_MESH_AXES_MAX, " are possible"));
  }
  for (int i = 0; i < config.axis_count; ++i) {
    if (config.axis_names[i] == nullptr) {
      return Invalid("mesh_create", StrCat("the name of axis ", i, " is NULL; give it one"));
    }
    axes.push_back({config.axis_names[i], config.axis_sizes[i]});
  }
  return axes;
}

absl::StatusOr<weft::ContextOptions> ReadOptions(const weft_shard_config_t* config) {
  constexpr char kCall[] = "shard_context_create";
  weft_shard_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, config, &copy));
  const int accumulation = NumberOf(copy.accumulation);
  if (accumulation != WEFT_SHARD_LOCAL_THEN_REDUCE && accumulation != WEFT_SHARD_REDUCE_EVERY) {
    return Invalid(kCall, StrCat("accumulation is ", accumulation,
                                 "; use a value of weft_shard_accumulation_t"));
  }
  if (copy.timeout_ns < 0) {
    return Invalid(kCall, StrCat("timeout_ns is ", copy.timeout_ns,
                                 "; use 0 for the group's deadline or a positive number"));
  }
  weft::ContextOptions options;
  if (copy.bucket_bytes != 0) options.limits.bucket_bytes = copy.bucket_bytes;
  if (copy.first_bucket_bytes != 0) options.limits.first_bucket_bytes = copy.first_bucket_bytes;
  options.accumulation = copy.accumulation;
  options.overlap = copy.no_overlap == 0;
  options.average = copy.no_average == 0;
  options.timeout_ns = copy.timeout_ns;
  if (copy.prefetch < -1 || copy.microbatches < 0) {
    return Invalid(kCall,
                   StrCat("prefetch is ", copy.prefetch, ", microbatches ", copy.microbatches,
                          "; use -1 (none), 0 (the default) or a positive number, and 0 "
                          "(one) or a positive number"));
  }
  if (copy.prefetch != 0) options.prefetch = std::max(copy.prefetch, 0);
  if (copy.microbatches != 0) options.microbatches = copy.microbatches;
  options.budget_bytes = copy.memory_budget_bytes;
  return options;
}

absl::StatusOr<weft::Placement> ReadPolicy(const weft_shard_policy_t* policy) {
  constexpr char kCall[] = "shard_unit_begin";
  weft_shard_policy_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, policy, &copy));
  const int preset = NumberOf(copy.preset);
  if (preset < 0 || preset > WEFT_SHARD_FRACTION) {
    return Invalid(kCall, StrCat("preset is ", preset, "; use a value of weft_shard_preset_t"));
  }
  const int cut = NumberOf(copy.cut);
  if (cut < WEFT_SHARD_CUT_FLAT || cut > WEFT_SHARD_CUT_TENSOR) {
    return Invalid(kCall, StrCat("cut is ", cut, "; use a value of weft_shard_cut_t"));
  }
  if (copy.cut_rows < 0) {
    return Invalid(kCall, StrCat("cut_rows is ", copy.cut_rows, "; use 0 or a positive number"));
  }
  weft::Placement placement = weft::PlacementOf(copy.preset);
  if (cut == WEFT_SHARD_CUT_BLOCK) placement.cut = weft::CutRule::kRows;
  if (cut == WEFT_SHARD_CUT_TENSOR) placement.cut = weft::CutRule::kParams;
  placement.float32_gradients = copy.float32_gradients != 0;
  if (copy.cut_rows > 0) placement.cut_rows = static_cast<size_t>(copy.cut_rows);
  return placement;
}

absl::Status MeshCreate(weft_group_t group, const weft_mesh_config_t* config, weft_mesh_t* out) {
  WEFT_RETURN_IF_ERROR(CheckOut("mesh_create", out, "mesh"));
  std::shared_ptr<weft::ProcessGroup> ranks = weft::GroupOf(group);
  if (ranks == nullptr) {
    return Invalid("mesh_create", "group is NULL or not a live group; pass a weft_group_t");
  }
  weft_mesh_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig("mesh_create", config, &copy));
  WEFT_ASSIGN_OR_RETURN(std::vector<weft::MeshAxis> axes, ReadAxes(copy));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const weft::Mesh> mesh,
                        weft::Mesh::Create(std::move(ranks), std::move(axes)));
  *out = new weft_mesh{.mesh = std::move(mesh), .axis_groups = {}};
  for (size_t axis = 0; axis < (*out)->mesh->axes().size(); ++axis) {
    (*out)->axis_groups.push_back({.group = (*out)->mesh->axis_group(axis)});
  }
  return absl::OkStatus();
}

absl::Status AxisGroup(weft_mesh_t mesh, int axis, weft_group_t* group) {
  WEFT_RETURN_IF_ERROR(CheckOut("mesh_axis_group", group, "group"));
  WEFT_RETURN_IF_ERROR(Check("mesh_axis_group", mesh));
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
  WEFT_ASSIGN_OR_RETURN(const weft::ContextOptions options, ReadOptions(config));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<weft::Context> context,
                        weft::Context::Create(mesh->mesh, options));
  *out = new weft_shard_context{.context = std::move(context)};
  return absl::OkStatus();
}

absl::Status ContextFinalize(weft_shard_context_t context, weft_shard_plan_t* plan) {
  WEFT_RETURN_IF_ERROR(Check("shard_context_finalize", context));
  constexpr size_t kFirstVersion = offsetof(weft_shard_plan_t, optimizer_bytes);
  if (plan != nullptr) {
    WEFT_RETURN_IF_ERROR(CheckAnswer("shard_context_finalize", plan, kFirstVersion));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t made, context->context->Finalize());
  if (plan != nullptr) WriteAnswer(made, plan);
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
  WEFT_ASSIGN_OR_RETURN(const weft::Placement placement, ReadPolicy(policy));
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
  if (name == nullptr) return Invalid(kCall, "name is NULL; give the parameter a name");
  if (shape == nullptr && ndim > 0) {
    return Invalid(kCall, StrCat("shape of ", name, " is NULL; pass its ", ndim, " dimensions"));
  }
  if ((flags & ~(WEFT_SHARD_PARAM_FROZEN | WEFT_SHARD_PARAM_NO_DECAY)) != 0) {
    return Invalid(kCall, StrCat("flags of ", name, " are ", flags,
                                 "; WEFT_SHARD_PARAM_FROZEN and WEFT_SHARD_PARAM_NO_DECAY are "
                                 "possible"));
  }
  weft_shard_context* const owner = unit->owner;
  WEFT_ASSIGN_OR_RETURN(const int index,
                        owner->context->AddParam(unit->index, name, shape, ndim, dtype,
                                                 (flags & WEFT_SHARD_PARAM_FROZEN) != 0,
                                                 (flags & WEFT_SHARD_PARAM_NO_DECAY) == 0));
  owner->params.push_back({.owner = owner, .index = index});
  *out = &owner->params.back();
  return absl::OkStatus();
}

absl::Status View(weft_shard_param_t param, weft_shard_view_t* view) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_param_view", view, "view"));
  // The struct ended in padding where grad_dtype is now, so its size is the same.
  WEFT_RETURN_IF_ERROR(CheckAnswer("shard_param_view", view));
  WEFT_RETURN_IF_ERROR(Check("shard_param_view", param));
  WEFT_ASSIGN_OR_RETURN(const weft::ParamView found, param->owner->context->View(param->index));
  view->data = found.data;
  view->grad = found.grad;
  view->count = found.count;
  view->dtype = found.dtype;
  view->grad_dtype = found.grad_dtype;
  return absl::OkStatus();
}

absl::Status GetPart(weft_shard_param_t param, weft_shard_part_t* part) {
  WEFT_RETURN_IF_ERROR(CheckOut("shard_param_part", part, "part"));
  WEFT_RETURN_IF_ERROR(CheckAnswer("shard_param_part", part));
  WEFT_RETURN_IF_ERROR(Check("shard_param_part", param));
  WEFT_ASSIGN_OR_RETURN(const auto found, param->owner->context->OwnPart(param->index));
  const auto& [view, begin] = found;
  part->data = view.data;
  part->grad = view.grad;
  part->begin = begin;
  part->count = view.count;
  part->dtype = view.dtype;
  part->grad_dtype = view.grad_dtype;
  return absl::OkStatus();
}

// 0 means the default, a negative number 0.
double Or(double value, double fallback) {
  return value == 0 ? fallback : std::max(value, 0.0);
}

absl::Status ReadLossScale(const char* call, const weft_optimizer_config_t& given,
                           weft::OptimizerConfig& config) {
  config.dynamic_scale = given.dynamic_loss_scale != 0;
  config.static_scale = Or(given.loss_scale, 1);
  config.scale.initial = Or(given.loss_scale, config.scale.initial);
  if (given.loss_scale_growth_steps != 0) config.scale.growth_steps = given.loss_scale_growth_steps;
  if (given.loss_scale_hysteresis != 0) config.scale.hysteresis = given.loss_scale_hysteresis;
  if (std::isfinite(config.static_scale) && config.static_scale > 0) return absl::OkStatus();
  return Invalid(call, StrCat("loss_scale is ", given.loss_scale, "; use a positive number"));
}

absl::StatusOr<weft::OptimizerConfig> ReadOptimizer(const weft_optimizer_config_t* given) {
  constexpr char kCall[] = "shard_context_optimizer";
  weft_optimizer_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, given, &copy));
  const int kind = NumberOf(copy.kind);
  if (kind < WEFT_OPTIMIZER_ADAMW || kind > WEFT_OPTIMIZER_LARS) {
    return Invalid(kCall, StrCat("kind is ", kind, "; use a value of weft_optimizer_kind_t"));
  }
  for (const double number :
       {copy.beta1, copy.beta2, copy.epsilon, copy.weight_decay, copy.momentum, copy.trust}) {
    if (!std::isfinite(number)) return Invalid(kCall, "a number is not finite");
  }
  if (copy.beta1 >= 1 || copy.beta2 >= 1 || copy.momentum >= 1) {
    return Invalid(kCall, "beta1, beta2 and momentum must be below 1");
  }
  weft::OptimizerConfig config;
  config.kind = copy.kind;
  const double decay = Or(copy.weight_decay, 0);
  config.adamw = {.beta1 = Or(copy.beta1, 0.9),
                  .beta2 = Or(copy.beta2, 0.999),
                  .epsilon = Or(copy.epsilon, 1e-8),
                  .weight_decay = decay};
  config.sgd = {
      .momentum = Or(copy.momentum, 0), .weight_decay = decay, .nesterov = copy.nesterov != 0};
  config.lion = {
      .beta1 = Or(copy.beta1, 0.9), .beta2 = Or(copy.beta2, 0.99), .weight_decay = decay};
  config.lamb = {.beta1 = Or(copy.beta1, 0.9),
                 .beta2 = Or(copy.beta2, 0.999),
                 .epsilon = copy.epsilon > 0 ? copy.epsilon : 1e-6,
                 .weight_decay = decay};
  config.lars = {.momentum = Or(copy.momentum, 0.9),
                 .weight_decay = decay,
                 .coefficient = Or(copy.trust, 1e-3)};
  WEFT_RETURN_IF_ERROR(ReadLossScale(kCall, copy, config));
  return config;
}

absl::Status SetOptimizer(weft_shard_context_t context, const weft_optimizer_config_t* given) {
  WEFT_RETURN_IF_ERROR(Check("shard_context_optimizer", context));
  WEFT_ASSIGN_OR_RETURN(const weft::OptimizerConfig config, ReadOptimizer(given));
  return context->context->SetOptimizer(config);
}

absl::Status OptimizerStep(weft_shard_context_t context, const weft_shard_update_t* update,
                           weft_shard_update_result_t* result) {
  constexpr char kCall[] = "shard_optimizer_step";
  WEFT_RETURN_IF_ERROR(Check(kCall, context));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, update, "update"));
  if (result != nullptr) WEFT_RETURN_IF_ERROR(CheckAnswer(kCall, result));
  weft_shard_update_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, update, &copy));
  if (!std::isfinite(copy.learning_rate) || !std::isfinite(copy.norm_max) || copy.norm_max < 0) {
    return Invalid(kCall, StrCat("learning_rate is ", copy.learning_rate, ", norm_max ",
                                 copy.norm_max, "; use finite numbers, norm_max 0 or more"));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t made,
                        context->context->OptimizerStep(copy));
  if (result != nullptr) WriteAnswer(made, result);
  return absl::OkStatus();
}

absl::Status StepBegin(weft_shard_context_t context, weft_shard_mode_t mode, uint64_t tag) {
  WEFT_RETURN_IF_ERROR(Check("shard_step_begin", context));
  if (mode != WEFT_SHARD_TRAIN && mode != WEFT_SHARD_EVAL) {
    return Invalid("shard_step_begin", StrCat("mode is ", static_cast<int>(mode),
                                              "; use WEFT_SHARD_TRAIN or WEFT_SHARD_EVAL"));
  }
  return context->context->StepBegin(mode, tag);
}

absl::Status MicrobatchBegin(weft_shard_context_t context, int index, int last) {
  WEFT_RETURN_IF_ERROR(Check("shard_microbatch_begin", context));
  if (last != 0 && last != 1) {
    return Invalid("shard_microbatch_begin", StrCat("last is ", last, "; use 0 or 1"));
  }
  return context->context->MicrobatchBegin(index, last == 1);
}

using UnitCall = absl::Status (weft::Context::*)(int);

absl::Status CallUnit(const char* name, UnitCall call, weft_shard_unit_t unit, void* stream) {
  WEFT_RETURN_IF_ERROR(Check(name, unit));
  WEFT_RETURN_IF_ERROR(CheckStream(name, stream));
  return (unit->owner->context.get()->*call)(unit->index);
}

absl::Status GradReady(weft_shard_param_t param, const void* grad, void* stream) {
  WEFT_RETURN_IF_ERROR(Check("shard_grad_ready", param));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_grad_ready", stream));
  return param->owner->context->GradReady(param->index, grad);
}

absl::Status MicrobatchEnd(weft_shard_context_t context, void* stream) {
  WEFT_RETURN_IF_ERROR(Check("shard_microbatch_end", context));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_microbatch_end", stream));
  return context->context->MicrobatchEnd();
}

absl::Status Finish(weft_shard_context_t context, void* stream, weft_shard_step_result_t* result) {
  WEFT_RETURN_IF_ERROR(Check("shard_finish", context));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_finish", stream));
  constexpr size_t kFirstVersion = offsetof(weft_shard_step_result_t, replayed);
  if (result != nullptr) {
    WEFT_RETURN_IF_ERROR(CheckAnswer("shard_finish", result, kFirstVersion));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t found, context->context->Finish());
  if (result != nullptr) WriteAnswer(found, result);
  return absl::OkStatus();
}

}  // namespace

extern "C" {

weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                               weft_mesh_t* mesh) {
  return Guarded([&] { return MeshCreate(group, config, mesh); });
}

weft_result_t weft_mesh_axis_group(weft_mesh_t mesh, int axis, weft_group_t* group) {
  return Guarded([&] { return AxisGroup(mesh, axis, group); });
}

weft_result_t weft_mesh_destroy(weft_mesh_t mesh) {
  return Guarded([&] { return MeshDestroy(mesh); });
}

weft_result_t weft_shard_context_create(weft_mesh_t mesh, const weft_shard_config_t* config,
                                        weft_shard_context_t* context) {
  return Guarded([&] { return ContextCreate(mesh, config, context); });
}

weft_result_t weft_shard_context_finalize(weft_shard_context_t context, weft_shard_plan_t* plan) {
  return Guarded([&] { return ContextFinalize(context, plan); });
}

weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_context_broadcast", context));
    return context->context->Broadcast(root);
  });
}

weft_result_t weft_shard_context_verify(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_context_verify", context));
    return context->context->Verify();
  });
}

weft_result_t weft_shard_context_destroy(weft_shard_context_t context) {
  return Guarded([&] { return ContextDestroy(context); });
}

weft_result_t weft_shard_unit_begin(weft_shard_context_t context, const char* name,
                                    const weft_shard_policy_t* policy, weft_shard_unit_t* unit) {
  return Guarded([&] { return UnitBegin(context, name, policy, unit); });
}

weft_result_t weft_shard_unit_add_param(weft_shard_unit_t unit, const char* name,
                                        const int64_t* shape, int ndim, weft_dtype_t dtype,
                                        uint32_t flags, weft_shard_param_t* param) {
  return Guarded([&] { return UnitAddParam(unit, name, shape, ndim, dtype, flags, param); });
}

weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_unit_seal", unit));
    return unit->owner->context->SealUnit(unit->index);
  });
}

weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view) {
  return Guarded([&] { return View(param, view); });
}

weft_result_t weft_shard_param_part(weft_shard_param_t param, weft_shard_part_t* part) {
  return Guarded([&] { return GetPart(param, part); });
}

weft_result_t weft_shard_params_updated(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_params_updated", context));
    return context->context->Updated();
  });
}

weft_result_t weft_shard_param_load(weft_shard_param_t param, const void* values, int root) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_param_load", param));
    return param->owner->context->Load(param->index, values, root);
  });
}

weft_result_t weft_shard_param_read(weft_shard_param_t param, void* values) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_param_read", param));
    return param->owner->context->Read(param->index, values);
  });
}

weft_result_t weft_shard_context_optimizer(weft_shard_context_t context,
                                           const weft_optimizer_config_t* config) {
  return Guarded([&] { return SetOptimizer(context, config); });
}

weft_result_t weft_shard_loss_scale(weft_shard_context_t context, double* scale) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_loss_scale", context));
    WEFT_RETURN_IF_ERROR(CheckOut("shard_loss_scale", scale, "scale"));
    WEFT_ASSIGN_OR_RETURN(*scale, context->context->LossScale());
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_optimizer_step(weft_shard_context_t context,
                                        const weft_shard_update_t* update,
                                        weft_shard_update_result_t* result) {
  return Guarded([&] { return OptimizerStep(context, update, result); });
}

weft_result_t weft_shard_step_begin(weft_shard_context_t context, weft_shard_mode_t mode,
                                    uint64_t tag) {
  return Guarded([&] { return StepBegin(context, mode, tag); });
}

weft_result_t weft_shard_microbatch_begin(weft_shard_context_t context, int index, int last) {
  return Guarded([&] { return MicrobatchBegin(context, index, last); });
}

weft_result_t weft_shard_pre_forward(weft_shard_unit_t unit, void* stream) {
  return Guarded(
      [&] { return CallUnit("shard_pre_forward", &weft::Context::PreForward, unit, stream); });
}

weft_result_t weft_shard_post_forward(weft_shard_unit_t unit, void* stream) {
  return Guarded(
      [&] { return CallUnit("shard_post_forward", &weft::Context::PostForward, unit, stream); });
}

weft_result_t weft_shard_pre_backward(weft_shard_unit_t unit, void* stream) {
  return Guarded(
      [&] { return CallUnit("shard_pre_backward", &weft::Context::PreBackward, unit, stream); });
}

weft_result_t weft_shard_grad_ready(weft_shard_param_t param, const void* grad, void* stream) {
  return Guarded([&] { return GradReady(param, grad, stream); });
}

weft_result_t weft_shard_post_backward(weft_shard_unit_t unit, void* stream) {
  return Guarded(
      [&] { return CallUnit("shard_post_backward", &weft::Context::PostBackward, unit, stream); });
}

weft_result_t weft_shard_microbatch_end(weft_shard_context_t context, void* stream) {
  return Guarded([&] { return MicrobatchEnd(context, stream); });
}

weft_result_t weft_shard_finish(weft_shard_context_t context, void* stream,
                                weft_shard_step_result_t* result) {
  return Guarded([&] { return Finish(context, stream, result); });
}

weft_result_t weft_shard_step_end(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_step_end", context));
    return context->context->StepEnd();
  });
}

weft_result_t weft_shard_abort_step(weft_shard_context_t context, const char* reason) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check("shard_abort_step", context));
    return context->context->AbortStep(reason == nullptr ? "" : reason);
  });
}

}  // extern "C"
