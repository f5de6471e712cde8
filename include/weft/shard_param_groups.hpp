// Param groups for C++17: shard_param_groups.h.
//
//   weft_shard_param_group_t slow = {sizeof(slow)};
//   slow.learning_rate_factor = 0.1;
//   const int group = weft::AddParamGroup(context, slow);                  // after SetOptimizer(), before Finalize()
//   weft::PutIntoGroup(embedding, group);
//   ...
//   slow.learning_rate_factor = 0.05;
//   weft::ChangeParamGroup(context, group, slow);                          // between steps
//
// Errors and the thread rule are as in the C header.
#ifndef WEFT_SHARD_PARAM_GROUPS_HPP_
#define WEFT_SHARD_PARAM_GROUPS_HPP_

#include "weft/shard.hpp"
#include "weft/shard_param_groups.h"

namespace weft {
inline namespace interface_0 {

// Adds a group and returns its number; what `numbers` does not name is the context's.
inline int AddParamGroup(const ShardContext& context, const weft_shard_param_group_t& numbers) {
  return internal::Returned<int>(weft_shard_param_group_add, context.get(), &numbers);
}

// Changes what `numbers` names, from the next update on.
inline void ChangeParamGroup(const ShardContext& context, int group,
                             const weft_shard_param_group_t& numbers) {
  Check(weft_shard_param_group_set(context.get(), group, &numbers));
}

// What a group has.
inline weft_shard_param_group_t ParamGroupOf(const ShardContext& context, int group) {
  return internal::Filled<weft_shard_param_group_t>(weft_shard_param_group_get, context.get(),
                                                    group);
}

// Before Finalize().
inline void PutIntoGroup(const ShardParam& param, int group) {
  Check(weft_shard_param_set_group(param.get(), group));
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SHARD_PARAM_GROUPS_HPP_
