// The C interface of include/weft/shard.h over shard/: contexts, units, params. A caller's struct may be older or newer
// than this library, so each is copied into a whole one (ReadConfig) before a member is looked at, and a 0 in it means the
// default. What a value may be is said here, where the caller's names for it are known; what values mean together, in shard/.
#include "weft/shard.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/handle_pool.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace weft::shard_calls {

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

absl::Status ReadOffload(const weft_shard_offload_t* offload, OffloadOptions* options) {
  constexpr char kCall[] = "shard_context_create";
  if (offload == nullptr) return absl::OkStatus();
  weft_shard_offload_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, offload, &copy));
  if (copy.directory == nullptr || *copy.directory == '\0') {
    return Invalid(kCall,
                   "directory of offload is NULL or empty; name one on a disk with room for the "
                   "optimizer's state, or pass no offload");
  }
  constexpr size_t kBufferBytesMin = size_t{1} << 20;
  if (copy.buffer_bytes != 0 && copy.buffer_bytes < kBufferBytesMin) {
    return Invalid(kCall, StrCat("buffer_bytes of offload is ", copy.buffer_bytes,
                                 "; use 0 (64 MiB) or at least 1 MiB"));
  }
  if (copy.params != 0 && copy.params != 1)
    return Invalid(kCall, StrCat("params of offload is ", copy.params, "; use 0 or 1"));
  WEFT_ASSIGN_OR_RETURN(options->directory, AbsolutePath(copy.directory));
  options->params = copy.params == 1;
  if (copy.buffer_bytes != 0) options->buffer_bytes = copy.buffer_bytes;
  return absl::OkStatus();
}

absl::StatusOr<ContextOptions> ReadOptions(const weft_shard_config_t* config) {
  constexpr char kCall[] = "shard_context_create";
  weft_shard_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, config, &copy));
  WEFT_RETURN_IF_ERROR(CheckEnum(kCall, "accumulation", copy.accumulation,
                                 WEFT_SHARD_INNER_EVERY_OUTER_LAST, "weft_shard_accumulation_t"));
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
  if ((copy.fields & ~WEFT_SHARD_PREFETCH) != 0) {
    return Invalid(kCall, StrCat("fields has unknown bits: ", copy.fields));
  }
  if (copy.prefetch < 0) {
    return Invalid(kCall, StrCat("prefetch is ", copy.prefetch,
                                 "; for none set WEFT_SHARD_PREFETCH in fields, and 0"));
  }
  if (copy.microbatches < 0 || copy.microbatches > kMicrobatchesMax) {
    return Invalid(kCall, StrCat("microbatches is ", copy.microbatches,
                                 "; use 0 (one) or a number up to ", kMicrobatchesMax));
  }
  if (copy.prefetch != 0 || (copy.fields & WEFT_SHARD_PREFETCH) != 0) {
    options.prefetch = copy.prefetch;
  }
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
  WEFT_RETURN_IF_ERROR(CheckEnum(kCall, "stable_views", copy.stable_views, WEFT_SHARD_VIEWS_APART,
                                 "weft_shard_views_t"));
  options.views = copy.stable_views;
  WEFT_RETURN_IF_ERROR(ReadOffload(copy.offload, &options.offload));
  return options;
}

absl::Status CheckPlaces(const char* call, const weft_shard_policy_t& policy) {
  for (const weft_shard_place_t* const place :
       {&policy.params, &policy.between, &policy.gradients, &policy.optimizer}) {
    WEFT_RETURN_IF_ERROR(
        CheckEnum(call, "a place", *place, WEFT_SHARD_PLACE_SHARDED_INNER, "weft_shard_place_t"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> ReadPolicy(const char* call, const weft_shard_policy_t* policy) {
  weft_shard_policy_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, policy, &copy));
  WEFT_RETURN_IF_ERROR(
      CheckEnum(call, "preset", copy.preset, WEFT_SHARD_FRACTION, "weft_shard_preset_t"));
  WEFT_RETURN_IF_ERROR(CheckEnum(call, "cut", copy.cut, WEFT_SHARD_CUT_TENSOR, "weft_shard_cut_t"));
  if (copy.cut_rows < 0) {
    return Invalid(call, StrCat("cut_rows is ", copy.cut_rows, "; use 0 or a positive number"));
  }
  Placement placement = PlacementOf(copy.preset);
  if (copy.cut == WEFT_SHARD_CUT_BLOCK) placement.cut = CutRule::kRows;
  if (copy.cut == WEFT_SHARD_CUT_TENSOR) placement.cut = CutRule::kParams;
  placement.float32_gradients = copy.float32_gradients != 0;
  if (copy.cut_rows > 0) placement.cut_rows = static_cast<size_t>(copy.cut_rows);
  WEFT_RETURN_IF_ERROR(
      CheckEnum(call, "wire", copy.wire, WEFT_SHARD_WIRE_FLOAT16, "weft_shard_wire_t"));
  placement.wire = copy.wire;
  WEFT_RETURN_IF_ERROR(CheckPlaces(call, copy));
  return Replace(placement, {copy.params, copy.between, copy.gradients, copy.optimizer});
}

absl::StatusOr<weft_shard_param_config_t> ReadParam(const char* call,
                                                    const weft_shard_param_config_t* config) {
  weft_shard_param_config_t param{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, config, &param));
  if (param.name == nullptr) return Invalid(call, "name is NULL; give the parameter a name");
  if (param.shape == nullptr && param.ndim > 0) {
    return Invalid(
        call, StrCat("shape of ", param.name, " is NULL; pass its ", param.ndim, " dimensions"));
  }
  constexpr uint32_t kKnown = WEFT_SHARD_PARAM_FROZEN | WEFT_SHARD_PARAM_NO_DECAY |
                              WEFT_SHARD_PARAM_WRITES_GRAD | WEFT_SHARD_PARAM_NOT_COUNTED;
  if ((param.flags & ~kKnown) == 0) return param;
  return Invalid(call, StrCat("flags of ", param.name, " are ", param.flags,
                              "; WEFT_SHARD_PARAM_FROZEN, WEFT_SHARD_PARAM_NO_DECAY, "
                              "WEFT_SHARD_PARAM_WRITES_GRAD and WEFT_SHARD_PARAM_NOT_COUNTED "
                              "are possible"));
}

namespace {

// Of a load or a read, which say where the values are.
template <typename T>
absl::StatusOr<T> ReadTransfer(const char* call, const T* given, const char* name) {
  T copy{};
  if (given == nullptr) {
    return Invalid(call, StrCat(name, " is NULL; pass one that says where the values are"));
  }
  WEFT_RETURN_IF_ERROR(ReadConfig(call, given, &copy));
  WEFT_RETURN_IF_ERROR(CheckStream(call, copy.stream));
  return copy;
}

}  // namespace

weft_shard_unit* AddUnitHandle(weft_shard_context* context, int index, std::string_view name) {
  weft_shard_unit* const unit = HandlePool<weft_shard_unit>::Get().Make();
  context->units.push_back(unit);
  unit->owner = context;
  unit->index = index;
  unit->name = name;
  context->units_by_name.emplace(unit->name, unit);
  return unit;
}

weft_shard_param* AddParamHandle(weft_shard_unit* unit, int index, std::string_view name,
                                 weft_shard_param* tied_to) {
  weft_shard_context* const owner = unit->owner;
  weft_shard_param* const param = HandlePool<weft_shard_param>::Get().Make();
  owner->params.push_back(param);
  param->owner = owner;
  param->index = index;
  param->name = name;
  param->unit = unit;
  param->index_in_unit = static_cast<int>(unit->params.size());
  param->tied_to = tied_to;
  unit->params.push_back(param);
  owner->params_by_name.emplace(param->name, param);
  return param;
}

}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

const char* weft_shard_preset_name(weft_shard_preset_t preset) {
  return weft::StrategyName(calls::NumberOf(preset));
}

weft_result_t weft_shard_preset_by_name(const char* name, weft_shard_preset_t* preset) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_preset_by_name";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, preset, "preset"));
    if (name == nullptr) return calls::Invalid(kCall, "name is NULL; pass the name of a preset");
    WEFT_ASSIGN_OR_RETURN(*preset, weft::PresetByName(name));
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_context_create(weft_mesh_t mesh, const weft_shard_config_t* config,
                                        weft_shard_context_t* context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_context_create", context, "context"));
    WEFT_RETURN_IF_ERROR(calls::Check("shard_context_create", mesh));
    WEFT_ASSIGN_OR_RETURN(const weft::ContextOptions options, calls::ReadOptions(config));
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<weft::Context> made,
                          weft::Context::Create(mesh->mesh, options));
    weft_shard_context_t handle = weft::HandlePool<weft_shard_context>::Get().Make();
    handle->allocator = options.memory.allocator;
    handle->context = std::move(made);
    *context = handle;
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_context_set(weft_shard_context_t context,
                                     const weft_shard_settings_t* settings) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_set";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (settings == nullptr) return calls::Invalid(kCall, "settings is NULL; pass what to change");
    weft_shard_settings_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, settings, &copy));
    if ((copy.fields & ~(WEFT_SHARD_PREFETCH | WEFT_SHARD_VERIFY_STEPS)) != 0) {
      return calls::Invalid(kCall, weft::StrCat("fields has unknown bits: ", copy.fields));
    }
    if (copy.prefetch < 0 || copy.verify_steps < 0) {
      return calls::Invalid(
          kCall, copy.prefetch < 0
                     ? weft::StrCat("prefetch is ", copy.prefetch,
                                    "; for none set WEFT_SHARD_PREFETCH in fields, and 0")
                     : weft::StrCat("verify_steps is ", copy.verify_steps,
                                    "; for never set WEFT_SHARD_VERIFY_STEPS in fields, and 0"));
    }
    weft::SettingsChange change;
    if (copy.prefetch != 0 || (copy.fields & WEFT_SHARD_PREFETCH) != 0) {
      change.prefetch = copy.prefetch;
    }
    if (copy.verify_steps != 0 || (copy.fields & WEFT_SHARD_VERIFY_STEPS) != 0) {
      change.verify_steps = copy.verify_steps;
    }
    return context->context->builder().Change(change);
  });
}

weft_result_t weft_shard_context_broadcast(weft_shard_context_t context, int root) {
  return calls::CallContext("shard_context_broadcast", context, &weft::Context::Broadcast, root);
}

weft_result_t weft_shard_context_destroy(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    if (context == nullptr) return absl::OkStatus();
    constexpr char kCall[] = "shard_context_destroy";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(
        weft::Annotate(context->context->state().AwaitReaders(), weft::StrCat(kCall, ": ")));
    const weft_shard_allocator_t allocator = context->allocator;
    const auto release_product = context->release_product;
    void* const product_user = context->product_user;
    // The context, whose end may take a while, goes last: by then no handle leads to it.
    for (weft_shard_param* const param : context->params)
      weft::HandlePool<weft_shard_param>::Get().Retire(param);
    for (weft_shard_unit* const unit : context->units)
      weft::HandlePool<weft_shard_unit>::Get().Retire(unit);
    weft::HandlePool<weft_shard_context>::Get().Retire(context);
    if (release_product != nullptr) release_product(product_user);
    if (allocator.release_user != nullptr) allocator.release_user(allocator.user);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_unit_begin(weft_shard_context_t context, const char* name,
                                    const weft_shard_policy_t* policy, weft_shard_unit_t* unit) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_unit_begin", unit, "unit"));
    WEFT_RETURN_IF_ERROR(calls::Check("shard_unit_begin", context));
    if (name == nullptr)
      return calls::Invalid("shard_unit_begin", "name is NULL; give the unit a name");
    WEFT_ASSIGN_OR_RETURN(const weft::Placement placement,
                          calls::ReadPolicy("shard_unit_begin", policy));
    const absl::StatusOr<int> index = context->context->BeginUnit(name, placement);
    if (!index.ok()) return weft::WithSubject(index.status(), name, {});
    *unit = calls::AddUnitHandle(context, *index, name);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_unit_add_param(weft_shard_unit_t unit,
                                        const weft_shard_param_config_t* config,
                                        weft_shard_param_t* param) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_unit_add_param";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, param, "param"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, unit));
    if (config == nullptr) {
      return calls::Invalid(kCall, "config is NULL; describe the parameter in one");
    }
    WEFT_ASSIGN_OR_RETURN(const weft_shard_param_config_t copy, calls::ReadParam(kCall, config));
    const absl::StatusOr<int> index = unit->owner->context->AddParam(
        unit->index, copy.name, copy.shape, copy.ndim, copy.dtype, copy.flags);
    if (!index.ok()) return weft::WithSubject(index.status(), unit->name, copy.name);
    *param = calls::AddParamHandle(unit, *index, copy.name);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_unit_tie_param(weft_shard_unit_t unit, const char* name,
                                        weft_shard_param_t param, weft_shard_param_t* tied) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_unit_tie_param";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, tied, "tied"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, unit));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    if (name == nullptr)
      return calls::Invalid(kCall, "name is NULL; give the tied parameter a name");
    weft_shard_context* const owner = unit->owner;
    if (param->owner != owner) {
      return calls::Invalid(kCall, "param belongs to another context; tie params of one context");
    }
    const absl::Status status = owner->context->TieParam(unit->index, name, param->index);
    if (!status.ok()) return weft::WithSubject(status, unit->name, name);
    weft_shard_param* const shared = param->tied_to == nullptr ? param : param->tied_to;
    *tied = calls::AddParamHandle(unit, param->index, name, shared);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_unit_seal(weft_shard_unit_t unit) {
  return calls::CallPart("shard_unit_seal", unit, &weft::Context::SealUnit);
}

weft_result_t weft_shard_param_view(weft_shard_param_t param, weft_shard_view_t* view) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_param_view", view, "view"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer("shard_param_view", view));
    WEFT_RETURN_IF_ERROR(calls::Check("shard_param_view", param));
    const absl::StatusOr<weft::ParamView> found = param->owner->context->View(param->index);
    if (!found.ok()) return calls::About(*param, found.status());
    const weft_shard_view_t made = {.data = found->data,
                                    .grad = found->grad,
                                    .count = found->count,
                                    .dtype = found->dtype,
                                    .grad_dtype = found->grad_dtype,
                                    .grad_unset = found->grad_unset ? 1 : 0};
    weft::WriteAnswer(made, view);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_param_part(weft_shard_param_t param, weft_shard_part_t* part) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_param_part", part, "part"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer("shard_param_part", part));
    WEFT_RETURN_IF_ERROR(calls::Check("shard_param_part", param));
    const auto found = param->owner->context->OwnPart(param->index);
    if (!found.ok()) return calls::About(*param, found.status());
    const auto& [view, begin] = *found;
    const weft_shard_part_t made = {.data = view.data,
                                    .grad = view.grad,
                                    .begin = begin,
                                    .count = view.count,
                                    .dtype = view.dtype,
                                    .grad_dtype = view.grad_dtype};
    weft::WriteAnswer(made, part);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_params_updated(weft_shard_context_t context, void* stream) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_params_updated", context));
    WEFT_RETURN_IF_ERROR(calls::CheckStream("shard_params_updated", stream));
    return context->context->Updated();
  });
}

weft_result_t weft_shard_param_load(weft_shard_param_t param, const weft_shard_load_t* load) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_load";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_load_t copy, calls::ReadTransfer(kCall, load, "load"));
    return calls::About(*param, param->owner->context->Load(param->index, copy.values, copy.root));
  });
}

weft_result_t weft_shard_param_read(weft_shard_param_t param, const weft_shard_read_t* read) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_read";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_read_t copy, calls::ReadTransfer(kCall, read, "read"));
    return calls::About(*param, param->owner->context->Read(param->index, copy.values, copy.root));
  });
}

}  // extern "C"
