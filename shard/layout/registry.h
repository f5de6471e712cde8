// What a program declares before finalize: units and their params, in the order of forward.
//
//   Registry registry;
//   WEFT_ASSIGN_OR_RETURN(int unit, registry.BeginUnit("blocks.0", PlacementOf(WEFT_SHARD_ZERO2)));
//   WEFT_ASSIGN_OR_RETURN(int weight, registry.AddParam(unit, "blocks.0.weight", {64, 64},
//                                                       WEFT_FLOAT32));
//   WEFT_RETURN_IF_ERROR(registry.SealUnit(unit));
//
// One unit is open at a time, so the params of a unit are neighbours. A call that fails changes
// nothing. Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/global_interval.h"
#include "shard/layout/placement.h"

namespace weft {

struct ParamSpec {
  std::string name;
  int unit = 0;
  std::vector<int64_t> shape;  // empty: a scalar
  weft_dtype_t dtype = WEFT_FLOAT32;
  bool frozen = false;
  bool decays = true;          // weight decay of the context's optimizer applies
  bool writes_grad = false;    // the caller writes its first gradient: no zeros before it
  bool counted = true;         // by the global norm
  size_t count = 1;            // elements
  int group = 0;               // of the optimizer's param groups
  GlobalInterval global = {};  // what it is in a checkpoint: all of a tensor of its own by default
};

// Those of WEFT_SHARD_PARAM_* that it has.
uint32_t FlagsOf(const ParamSpec& spec);
void SetFlags(uint32_t flags, ParamSpec& spec);

struct UnitSpec {
  std::string name;
  Placement placement;
  int first_param = 0;
  int param_count = 0;
  std::vector<int>
      used;         // units whose params it uses: those of its tied params, each once, then itself
  int within = -1;  // the unit in whose forward and backward it is used; -1: in none
};

// A param of another unit, under another name.
struct TiedParam {
  std::string name;
  int unit = 0;   // that uses it
  int param = 0;  // the one it is
};

// One line of what ranks must agree on: "parameter blocks.0.weight", "shape [64, 64] float32".
struct RegistryEntry {
  std::string subject;
  std::string facts;
  bool operator==(const RegistryEntry&) const = default;
};

class Registry {
 public:
  // INVALID_ARGUMENT for an empty or used name, BAD_STATE while another unit is open.
  absl::StatusOr<int> BeginUnit(std::string_view name, const Placement& placement = {});

  // `shape` has `ndim` dimensions, `flags` are WEFT_SHARD_PARAM_*. INVALID_ARGUMENT for a bad name, dtype or shape,
  // BAD_STATE if the unit is sealed.
  absl::StatusOr<int> AddParam(int unit, std::string_view name, const int64_t* shape, int ndim,
                               weft_dtype_t dtype, uint32_t flags = 0);

  // The unit uses `param` of an earlier unit. INVALID_ARGUMENT for a bad name, or a param of this unit.
  absl::Status TieParam(int unit, std::string_view name, int param);

  absl::Status SealUnit(int unit);

  // INVALID_ARGUMENT for an outer unit that does not stand before `unit`.
  absl::Status NestUnit(int unit, int outer);

  // The param is updated as that group of the optimizer's.
  void SetGroup(int param, int group) { params_[static_cast<size_t>(param)].group = group; }

  // The param is elements [begin, begin + its count) of a tensor of this name and shape. INVALID_ARGUMENT for a bad name or shape, or
  // if the tensor ends before.
  absl::Status SetGlobal(int param, std::string_view name, const int64_t* shape, int ndim,
                         size_t begin);

  // Takes back the units from number `count` on, and their params; nothing is tied by them or to them.
  void DropUnits(size_t count);

  const std::vector<UnitSpec>& units() const { return units_; }

  const std::string& UnitName(int unit) const { return units_[static_cast<size_t>(unit)].name; }

  const std::vector<ParamSpec>& params() const { return params_; }

  // The unit that is not sealed, or -1.
  int open_unit() const { return open_unit_; }

  // All units and params in order, as text.
  std::vector<RegistryEntry> Entries() const;

 private:
  std::vector<UnitSpec> units_;
  std::vector<ParamSpec> params_;
  std::vector<TiedParam> tied_;
  std::unordered_set<std::string> unit_names_;
  std::unordered_set<std::string> param_names_;
  int open_unit_ = -1;
  size_t total_bytes_ = 0;
};

}  // namespace weft
