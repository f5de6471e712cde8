// What is refused here is refused on the rank that declares it, before anything is sent: ranks compare the text of their
// declarations in finalize, and a declaration that makes no sense would be compared, and agreed on, as any other.
#include "shard/layout/registry.h"

#include <algorithm>
#include <cstddef>

#include "weft/shard.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

// Room for data, gradients and accumulated gradients with padding, far from overflow.
constexpr size_t kTotalBytesMax = size_t{1} << 60;

absl::Status Invalid(std::string_view call, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = std::string(call)},
                   StrCat(call, ": ", what));
}

absl::Status BadState(std::string_view call, std::string_view what) {
  return MakeError(WEFT_BAD_STATE, {.operation = std::string(call)}, StrCat(call, ": ", what));
}

// Types that optimizers update and gradients are accumulated in.
bool IsTrainable(weft_dtype_t dtype) {
  return dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT32 ||
         dtype == WEFT_FLOAT64;
}

// Names go into checkpoints, plans and messages, which are text.
absl::Status CheckName(std::string_view call, std::string_view what, std::string_view name) {
  if (name.empty()) return Invalid(call, StrCat("the name of ", what, " is empty; give it one"));
  if (IsUtf8(name)) return absl::OkStatus();
  return Invalid(call, StrCat("the name of ", what, " is no UTF-8: \"",
                              absl::CHexEscape(ToAbsl(name)), "\"; give it another one"));
}

absl::Status CheckDimensions(std::string_view call, std::string_view what, int ndim) {
  if (ndim >= 0 && ndim <= WEFT_SHARD_DIMS_MAX) return absl::OkStatus();
  return Invalid(call, StrCat(what, " has ", ndim, " dimensions; 0 to ", WEFT_SHARD_DIMS_MAX,
                              " are possible"));
}

// Nothing for a param that is the whole of a tensor of its own name and shape.
std::string GlobalText(const ParamSpec& param) {
  const GlobalInterval& global = param.global;
  if (global == WholeTensor(param.name, param.shape, param.count)) return "";
  return StrCat(" from element ", global.begin, " of ", global.name, " [",
                absl::StrJoin(global.shape, ", "), "]");
}

std::string PolicyText(const Placement& placement) {
  std::string text = StrCat("preset ", PresetName(placement.preset));
  if (!(PlacesOf(placement) == PlacesOf(PlacementOf(placement.preset)))) {
    absl::StrAppend(&text, " with ", PlacesText(placement));
  }
  if (placement.wire != WEFT_SHARD_WIRE_GRADIENTS) {
    absl::StrAppend(&text, " reduced as ",
                    placement.wire == WEFT_SHARD_WIRE_BFLOAT16 ? "bfloat16" : "float16");
  }
  if (placement.float32_gradients) absl::StrAppend(&text, " with float32 gradients");
  if (placement.cut == CutRule::kParams) absl::StrAppend(&text, " split between params");
  if (placement.cut == CutRule::kRows) {
    absl::StrAppend(&text, " split between blocks of ", placement.cut_rows, " rows");
  }
  return text;
}

}  // namespace

uint32_t FlagsOf(const ParamSpec& spec) {
  return (spec.frozen ? WEFT_SHARD_PARAM_FROZEN : 0) |
         (spec.decays ? 0 : WEFT_SHARD_PARAM_NO_DECAY) |
         (spec.writes_grad ? WEFT_SHARD_PARAM_WRITES_GRAD : 0) |
         (spec.counted ? 0 : WEFT_SHARD_PARAM_NOT_COUNTED);
}

void SetFlags(uint32_t flags, ParamSpec& spec) {
  spec.frozen = (flags & WEFT_SHARD_PARAM_FROZEN) != 0;
  spec.decays = (flags & WEFT_SHARD_PARAM_NO_DECAY) == 0;
  spec.writes_grad = (flags & WEFT_SHARD_PARAM_WRITES_GRAD) != 0;
  spec.counted = (flags & WEFT_SHARD_PARAM_NOT_COUNTED) == 0;
}

absl::StatusOr<int> Registry::BeginUnit(std::string_view name, const Placement& placement) {
  WEFT_RETURN_IF_ERROR(CheckName("unit_begin", "the unit", name));
  if (open_unit_ >= 0) {
    return BadState("unit_begin", StrCat("unit ", name, " cannot begin while unit ",
                                         units_[static_cast<size_t>(open_unit_)].name,
                                         " is open; seal that one first"));
  }
  if (!unit_names_.emplace(name).second) {
    return Invalid("unit_begin", StrCat("there is a unit ", name, " already; names are unique"));
  }
  open_unit_ = static_cast<int>(units_.size());
  units_.push_back({.name = std::string(name),
                    .placement = placement,
                    .first_param = static_cast<int>(params_.size()),
                    .used = {open_unit_}});
  return open_unit_;
}

absl::StatusOr<int> Registry::AddParam(int unit, std::string_view name, const int64_t* shape,
                                       int ndim, weft_dtype_t dtype, uint32_t flags) {
  WEFT_RETURN_IF_ERROR(CheckName("unit_add_param", "the parameter", name));
  const std::string what = StrCat("parameter ", name);
  WEFT_RETURN_IF_ERROR(CheckDimensions("unit_add_param", what, ndim));
  const bool frozen = (flags & WEFT_SHARD_PARAM_FROZEN) != 0;
  if (DtypeSize(dtype) == 0 || (!frozen && !IsTrainable(dtype))) {
    return Invalid(
        "unit_add_param",
        StrCat("parameter ", name, " is ", DtypeName(dtype), " (number ", static_cast<int>(dtype),
               "); float16, bfloat16, float32 and float64 are possible, and with "
               "WEFT_SHARD_PARAM_FROZEN every weft_dtype_t"));
  }
  WEFT_ASSIGN_OR_RETURN(const size_t count, CountOfShape("unit_add_param", what, shape, ndim));
  const size_t bytes = count * DtypeSize(dtype);
  if (bytes > kTotalBytesMax || total_bytes_ + bytes > kTotalBytesMax) {
    return Invalid("unit_add_param", StrCat("with parameter ", name,
                                            " all parameters together "
                                            "are larger than any memory; check its shape"));
  }
  if (open_unit_ != unit) {
    return BadState("unit_add_param",
                    StrCat("parameter ", name, " cannot be added to unit ",
                           units_[static_cast<size_t>(unit)].name,
                           ", which is sealed; add all parameters before sealing"));
  }
  if (!param_names_.emplace(name).second) {
    return Invalid("unit_add_param",
                   StrCat("there is a parameter ", name,
                          " already; names are unique in a context, as in blocks.0.weight"));
  }
  total_bytes_ += bytes;
  const int index = static_cast<int>(params_.size());
  const std::vector<int64_t> dimensions(shape, shape + ndim);
  params_.push_back({.name = std::string(name),
                     .unit = unit,
                     .shape = dimensions,
                     .dtype = dtype,
                     .count = count,
                     .global = WholeTensor(name, dimensions, count)});
  SetFlags(flags, params_.back());
  ++units_[static_cast<size_t>(unit)].param_count;
  return index;
}

absl::Status Registry::TieParam(int unit, std::string_view name, int param) {
  WEFT_RETURN_IF_ERROR(CheckName("unit_tie_param", "the tied parameter", name));
  const ParamSpec& owner = params_[static_cast<size_t>(param)];
  if (owner.unit == unit) {
    return Invalid("unit_tie_param", StrCat("parameter ", owner.name,
                                            " is one of this unit; use "
                                            "it without tying"));
  }
  UnitSpec& spec = units_[static_cast<size_t>(unit)];
  if (open_unit_ != unit) {
    return BadState("unit_tie_param",
                    StrCat("parameter ", name, " cannot be added to unit ", spec.name,
                           ", which is sealed; tie parameters before sealing"));
  }
  if (!param_names_.emplace(name).second) {
    return Invalid("unit_tie_param", StrCat("there is a parameter ", name,
                                            " already; names are unique in a context"));
  }
  tied_.push_back({.name = std::string(name), .unit = unit, .param = param});
  if (std::find(spec.used.begin(), spec.used.end(), owner.unit) == spec.used.end()) {
    spec.used.insert(spec.used.end() - 1, owner.unit);
  }
  return absl::OkStatus();
}

absl::Status Registry::SealUnit(int unit) {
  if (open_unit_ != unit) {
    return BadState("unit_seal", StrCat("unit ", units_[static_cast<size_t>(unit)].name,
                                        " is sealed already; seal a unit once"));
  }
  open_unit_ = -1;
  return absl::OkStatus();
}

absl::Status Registry::NestUnit(int unit, int outer) {
  if (outer >= unit) {
    return Invalid("unit_within",
                   StrCat("outer is unit ", UnitName(outer), ", which was not added before unit ",
                          UnitName(unit), "; add units after those that they are used in"));
  }
  units_[static_cast<size_t>(unit)].within = outer;
  return absl::OkStatus();
}

absl::Status Registry::SetGlobal(int param, std::string_view name, const int64_t* shape, int ndim,
                                 size_t begin) {
  constexpr char kCall[] = "param_global";
  ParamSpec& spec = params_[static_cast<size_t>(param)];
  WEFT_RETURN_IF_ERROR(
      CheckName(kCall, StrCat("the global tensor of parameter ", spec.name), name));
  const std::string what = StrCat("global tensor ", name);
  WEFT_RETURN_IF_ERROR(CheckDimensions(kCall, what, ndim));
  WEFT_ASSIGN_OR_RETURN(const size_t total, CountOfShape(kCall, what, shape, ndim));
  if (begin > total || spec.count > total - begin) {
    return Invalid(
        kCall, StrCat("parameter ", spec.name, " has ", spec.count,
                      " elements and would begin at element ", begin, " of ", what, ", which has ",
                      total, "; offset is counted in elements, shape is that of the whole"));
  }
  spec.global = {.name = std::string(name),
                 .shape = std::vector<int64_t>(shape, shape + ndim),
                 .total = total,
                 .begin = begin};
  return absl::OkStatus();
}

void Registry::DropUnits(size_t count) {
  for (; units_.size() > count; units_.pop_back()) {
    const UnitSpec& unit = units_.back();
    for (; params_.size() > static_cast<size_t>(unit.first_param); params_.pop_back()) {
      total_bytes_ -= params_.back().count * DtypeSize(params_.back().dtype);
      param_names_.erase(params_.back().name);
    }
    unit_names_.erase(unit.name);
  }
  if (open_unit_ >= static_cast<int>(count)) open_unit_ = -1;
}

std::vector<RegistryEntry> Registry::Entries() const {
  std::vector<RegistryEntry> entries;
  entries.reserve(units_.size() + params_.size());
  for (const UnitSpec& unit : units_) {
    entries.push_back({StrCat("unit ", unit.name),
                       StrCat(PolicyText(unit.placement),
                              unit.within < 0 ? "" : StrCat(" within ", UnitName(unit.within)))});
    for (int i = 0; i < unit.param_count; ++i) {
      const ParamSpec& param = params_[static_cast<size_t>(unit.first_param + i)];
      entries.push_back(
          {StrCat("parameter ", param.name),
           StrCat("shape [", absl::StrJoin(param.shape, ", "), "] ", DtypeName(param.dtype),
                  param.frozen ? " frozen" : "", param.decays ? "" : " without weight decay",
                  param.counted ? "" : " not counted", GlobalText(param),
                  param.group == 0 ? "" : StrCat(" in param group ", param.group))});
    }
  }
  for (const TiedParam& tied : tied_) {
    entries.push_back({StrCat("parameter ", tied.name),
                       StrCat("of unit ", units_[static_cast<size_t>(tied.unit)].name, ", is ",
                              params_[static_cast<size_t>(tied.param)].name)});
  }
  return entries;
}

}  // namespace weft
