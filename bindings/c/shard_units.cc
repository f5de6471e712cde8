// The C interface of include/weft/shard_units.h over shard/: units from a list of params.
#include "weft/shard_units.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "comm/kernels/dtype.h"
#include "shard/context/context.h"
#include "shard/layout/grouping.h"

namespace weft::shard_calls {
namespace {

constexpr char kCall[] = "shard_add_units";

// 0 for what is no shape or type, or too large: declaring it says what is wrong.
size_t BytesOf(const weft_shard_param_config_t& param) {
  constexpr size_t kMost = size_t{1} << 50;
  size_t bytes = DtypeSize(param.dtype);
  for (int i = 0; i < param.ndim; ++i) {
    if (param.shape[i] < 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(param.shape[i]), &bytes)) return 0;
  }
  return bytes > kMost ? 0 : bytes;
}

struct Description {
  std::vector<ParamSpec> specs;
  std::vector<GroupedParam> sizes;
};

// The caller's structs may be older or newer than this library's, so they lie as far apart as the first one says.
absl::StatusOr<Description> ReadParams(const weft_shard_param_config_t* params, size_t n) {
  Description description;
  const size_t stride = params->struct_size;
  for (size_t i = 0; i < n; ++i) {
    const auto* const given = reinterpret_cast<const weft_shard_param_config_t*>(
        reinterpret_cast<const std::byte*>(params) + i * stride);
    if (given->struct_size != stride) {
      return Invalid(kCall,
                     StrCat("params[", i, "].struct_size is ", given->struct_size,
                            ", that of params[0] is ", stride, "; set all to sizeof the struct"));
    }
    WEFT_ASSIGN_OR_RETURN(const weft_shard_param_config_t param, ReadParam(kCall, given));
    if (param.ndim < 0 || param.ndim > WEFT_SHARD_DIMS_MAX) {
      return Invalid(kCall, StrCat("parameter ", param.name, " has ", param.ndim,
                                   " dimensions; 0 to ", WEFT_SHARD_DIMS_MAX, " are possible"));
    }
    description.specs.push_back({.name = param.name,
                                 .shape = {param.shape, param.shape + param.ndim},
                                 .dtype = param.dtype});
    SetFlags(param.flags, description.specs.back());
    description.sizes.push_back({param.name, BytesOf(param)});
  }
  return description;
}

absl::StatusOr<Grouping> ReadGrouping(const weft_shard_grouping_t* grouping) {
  weft_shard_grouping_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, grouping, &copy));
  return Grouping{.prefix = copy.by_prefix == nullptr ? "" : copy.by_prefix,
                  .min_bytes = copy.min_bytes};
}

absl::Status AddUnits(weft_shard_context_t context, const weft_shard_param_config_t* params,
                      size_t n, const weft_shard_grouping_t* grouping,
                      const weft_shard_policy_t* policy, weft_shard_param_t* handles,
                      weft_shard_unit_t* units, size_t* unit_count) {
  WEFT_RETURN_IF_ERROR(Check(kCall, context));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, unit_count, "unit_count"));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, units, "units"));
  WEFT_RETURN_IF_ERROR(CheckOut(kCall, handles, "handles"));
  if (params == nullptr || n == 0) {
    return Invalid(kCall, params == nullptr ? "params is NULL; pass the list of parameters"
                                            : "n is 0; pass at least one parameter");
  }
  WEFT_ASSIGN_OR_RETURN(const Description description, ReadParams(params, n));
  WEFT_ASSIGN_OR_RETURN(const Grouping by, ReadGrouping(grouping));
  WEFT_ASSIGN_OR_RETURN(const Placement placement, ReadPolicy(kCall, policy));
  WEFT_ASSIGN_OR_RETURN(const std::vector<ParamGroup> groups, GroupParams(description.sizes, by));
  if (groups.size() > *unit_count) {
    return Invalid(kCall, StrCat("there is room for ", *unit_count, " units, the parameters make ",
                                 groups.size(), "; give units and *unit_count that much"));
  }
  WEFT_ASSIGN_OR_RETURN(const auto first,
                        context->context->AddUnits(description.specs, groups, placement));
  for (size_t i = 0; i < groups.size(); ++i) {
    units[i] = AddUnitHandle(context, first.first + static_cast<int>(i), groups[i].name);
    for (size_t p = groups[i].first; p < groups[i].first + groups[i].count; ++p) {
      handles[p] =
          AddParamHandle(units[i], first.second + static_cast<int>(p), description.specs[p].name);
    }
  }
  *unit_count = groups.size();
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::shard_calls

extern "C" {

weft_result_t weft_shard_add_units(weft_shard_context_t context,
                                   const weft_shard_param_config_t* params, size_t n,
                                   const weft_shard_grouping_t* grouping,
                                   const weft_shard_policy_t* policy, weft_shard_param_t* handles,
                                   weft_shard_unit_t* units, size_t* unit_count) {
  return weft::Guarded([&] {
    return weft::shard_calls::AddUnits(context, params, n, grouping, policy, handles, units,
                                       unit_count);
  });
}

}  // extern "C"
