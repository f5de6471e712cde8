// The C interface of include/weft/shard_info.h over shard/: what was declared, by handle, by index, by name. Handles keep names
// and their order themselves, as a registry's strings move when it grows; the rest is read from the registry.
#include "weft/shard_info.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"
#include "shard/layout/placement.h"
#include "shard/layout/registry.h"

namespace weft::shard_calls {
namespace {

weft_shard_param_info_t InfoOf(const weft_shard_param& param) {
  const ParamSpec& spec =
      param.owner->context->registry().params()[static_cast<size_t>(param.index)];
  weft_shard_param_info_t info{};
  info.name = param.name.c_str();
  info.unit = param.unit;
  info.unit_name = param.unit->name.c_str();
  info.tied_to = param.tied_to;
  info.count = spec.count;
  std::copy(spec.shape.begin(), spec.shape.end(), info.shape);
  info.ndim = static_cast<int>(spec.shape.size());
  info.dtype = spec.dtype;
  info.flags = FlagsOf(spec);
  info.index = param.index_in_unit;
  info.group = spec.group;
  return info;
}

weft_shard_unit_info_t InfoOf(const weft_shard_unit& unit) {
  Context& context = *unit.owner->context;
  const Registry& registry = context.registry();
  const Placement& placement = registry.units()[static_cast<size_t>(unit.index)].placement;
  const Places places = PlacesOf(placement);
  weft_shard_unit_info_t info{};
  info.name = unit.name.c_str();
  info.index = static_cast<size_t>(unit.index);
  info.param_count = unit.params.size();
  info.preset = placement.preset;
  info.params = places.params;
  info.between = places.between;
  info.gradients = places.gradients;
  info.optimizer = places.optimizer;
  if (placement.cut == CutRule::kParams) info.cut = WEFT_SHARD_CUT_TENSOR;
  if (placement.cut == CutRule::kRows) {
    info.cut = WEFT_SHARD_CUT_BLOCK;
    info.cut_rows = static_cast<int64_t>(placement.cut_rows);
  }
  info.float32_gradients = placement.float32_gradients ? 1 : 0;
  info.wire = placement.wire;
  info.sealed = registry.open_unit() == unit.index ? 0 : 1;
  info.unsharded = context.params().IsUnsharded(unit.index) ? 1 : 0;
  info.unsharded_bytes = context.params().UnshardedBytes(unit.index);
  return info;
}

template <typename Handle, typename Info>
weft_result_t GiveInfo(const char* call, const Handle* handle, Info* info) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(CheckOut(call, info, "info"));
    WEFT_RETURN_IF_ERROR(CheckAnswer(call, info));
    WEFT_RETURN_IF_ERROR(Check(call, const_cast<Handle*>(handle)));
    WriteAnswer(InfoOf(*handle), info);
    return absl::OkStatus();
  });
}

// How many characters two names share at their beginnings and, of the rest, at their ends.
size_t SharedCharacters(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t first = 0;
  while (first < most && a[first] == b[first])
    ++first;
  size_t last = 0;
  while (first + last < most && a[a.size() - 1 - last] == b[b.size() - 1 - last])
    ++last;
  return first + last;
}

// `kind` is "unit" or "param". A name that nothing has is answered with the one that is most like it.
template <typename Handle>
absl::Status FindByName(const char* call, const char* kind, const char* name,
                        const std::unordered_map<std::string_view, Handle*>& handles,
                        Handle** found) {
  if (name == nullptr) return Invalid(call, StrCat("name is NULL; pass the name of a ", kind));
  if (const auto at = handles.find(name); at != handles.end()) {
    *found = at->second;
    return absl::OkStatus();
  }
  std::string_view nearest;
  size_t shared = 0;
  for (const auto& [known, handle] : handles) {
    const size_t here = SharedCharacters(name, known);
    // Names come in no order, so that of two alike the first in the alphabet is told, on every rank.
    if (here < shared || (here == shared && !nearest.empty() && nearest < known)) continue;
    nearest = known;
    shared = here;
  }
  if (nearest.empty()) {
    return Invalid(call,
                   StrCat("no ", kind, " is named \"", name, "\"; none has been declared yet"));
  }
  return Invalid(call, StrCat("no ", kind, " is named \"", name, "\"; of the ", handles.size(),
                              " that there are \"", nearest, "\" is the nearest"));
}

absl::Status CheckIndex(const char* call, size_t index, size_t count, const char* what) {
  if (index < count) return absl::OkStatus();
  return Invalid(call, StrCat("index is ", index, ", the ", what, count, "; count from 0"));
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_param_info(weft_shard_param_t param, weft_shard_param_info_t* info) {
  return calls::GiveInfo("shard_param_info", param, info);
}

weft_result_t weft_shard_unit_info(weft_shard_unit_t unit, weft_shard_unit_info_t* info) {
  return calls::GiveInfo("shard_unit_info", unit, info);
}

weft_result_t weft_shard_context_unit_count(weft_shard_context_t context, size_t* count) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_context_unit_count", count, "count"));
    WEFT_RETURN_IF_ERROR(calls::Check("shard_context_unit_count", context));
    *count = context->units.size();
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_context_unit_at(weft_shard_context_t context, size_t index,
                                         weft_shard_unit_t* unit) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_unit_at";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, unit, "unit"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(
        calls::CheckIndex(kCall, index, context->units.size(), "number of units is "));
    *unit = context->units[index];
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_context_unit_by_name(weft_shard_context_t context, const char* name,
                                              weft_shard_unit_t* unit) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_unit_by_name";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, unit, "unit"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    return calls::FindByName(kCall, "unit", name, context->units_by_name, unit);
  });
}

weft_result_t weft_shard_unit_param_at(weft_shard_unit_t unit, size_t index,
                                       weft_shard_param_t* param) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_unit_param_at";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, param, "param"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, unit));
    WEFT_RETURN_IF_ERROR(
        calls::CheckIndex(kCall, index, unit->params.size(), "unit's number of params is "));
    *param = unit->params[index];
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_context_param_by_name(weft_shard_context_t context, const char* name,
                                               weft_shard_param_t* param) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_param_by_name";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, param, "param"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    return calls::FindByName(kCall, "param", name, context->params_by_name, param);
  });
}

}  // extern "C"
