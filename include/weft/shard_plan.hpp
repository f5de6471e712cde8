// Plans, orders and lists of units for C++17: shard_plan.h and shard_units.h.
//
//   weft_mesh_config_t cluster = {sizeof(cluster), 2, {"node", "gpu"}, {128, 8}};
//   const weft::Mesh mesh = weft::DryMesh(cluster);                    // ranks that do not exist
//   weft::ShardContext context(mesh, &config);
//   const weft::ShardModel model =
//       weft::AddUnits(context, {{"embed.weight", {50257, 768}}, ...}, {sizeof(weft_shard_grouping_t), "blocks.*"});
//   weft::HintOrder(context, order);                                   // if units are not used once each
//   std::cout << weft::PlanOf(context).peak_bytes;
//
// Errors and the thread rule are as in the C headers.
#ifndef WEFT_SHARD_PLAN_HPP_
#define WEFT_SHARD_PLAN_HPP_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/shard.hpp"

namespace weft {
inline namespace interface_0 {

// A mesh of ranks that do not exist, seen by one of them: for planning only.
inline Mesh DryMesh(const weft_mesh_config_t& config, int rank = 0) {
  return Mesh(internal::Returned<weft_mesh_t>(weft_mesh_create_dry, &config, rank));
}

// What the context will do, without peers; legal once all units are sealed.
inline weft_shard_plan_t PlanOf(const ShardContext& context) {
  return internal::Filled<weft_shard_plan_t>(weft_shard_context_plan, context.get());
}

// Elements [begin, begin + count) of a param.
struct ShardInterval {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// What mesh rank `rank` keeps of a param.
inline ShardInterval IntervalOf(const ShardParam& param, int rank) {
  ShardInterval interval;
  Check(weft_shard_param_interval(param.get(), rank, &interval.begin, &interval.count));
  return interval;
}

// The order in which forward uses the units, in which one may stand several times. Before Finalize().
inline void HintOrder(const ShardContext& context, const std::vector<ShardUnit>& order) {
  std::vector<weft_shard_unit_t> units;
  for (const ShardUnit& unit : order)
    units.push_back(unit.get());
  Check(weft_shard_hint_order(context.get(), units.data(), units.size()));
}

// Forward uses `unit` inside `outer`, which was added before it. Before Finalize().
inline void UseWithin(const ShardUnit& unit, const ShardUnit& outer) {
  Check(weft_shard_unit_within(unit.get(), outer.get()));
}

// One param of a list.
struct ShardParamSpec {
  std::string name;
  std::vector<std::int64_t> shape;  // empty: a scalar
  weft_dtype_t dtype = WEFT_FLOAT32;
  std::uint32_t flags = 0;  // WEFT_SHARD_PARAM_*
};

// What was declared for a list of params.
struct ShardModel {
  std::vector<ShardUnit> units;
  std::vector<ShardParam> params;  // in the order of the list
};

// Declares params, which stand in the order in which forward uses them, and the units that `grouping` makes of them.
inline ShardModel AddUnits(const ShardContext& context, const std::vector<ShardParamSpec>& params,
                           const weft_shard_grouping_t& grouping,
                           const weft_shard_policy_t* policy = nullptr) {
  std::vector<weft_shard_param_config_t> configs;
  for (const ShardParamSpec& param : params) {
    configs.push_back({sizeof(weft_shard_param_config_t), param.name.c_str(), param.shape.data(),
                       static_cast<int>(param.shape.size()), param.dtype, param.flags});
  }
  std::vector<weft_shard_param_t> handles(params.size());
  std::vector<weft_shard_unit_t> units(params.size());
  std::size_t unit_count = units.size();
  Check(weft_shard_add_units(context.get(), configs.data(), configs.size(), &grouping, policy,
                             handles.data(), units.data(), &unit_count));
  ShardModel model;
  for (std::size_t i = 0; i < unit_count; ++i)
    model.units.emplace_back(units[i]);
  for (weft_shard_param_t handle : handles)
    model.params.emplace_back(handle);
  return model;
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SHARD_PLAN_HPP_
