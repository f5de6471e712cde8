// The sizes of the interface's structs by their names.
#include <cstddef>
#include <string_view>

#include "weft/weft.h"

namespace weft {
namespace {

struct NamedSize {
  std::string_view name;
  size_t bytes;
};

template <typename T>
constexpr NamedSize Named(std::string_view name) {
  return {name, sizeof(T)};
}

#define WEFT_NAMED_SIZE(type) Named<type>(#type)

// Every struct of include/weft.
constexpr NamedSize kStructs[] = {
    WEFT_NAMED_SIZE(weft_allocator_t),
    WEFT_NAMED_SIZE(weft_call_t),
    WEFT_NAMED_SIZE(weft_checkpoint_config_t),
    WEFT_NAMED_SIZE(weft_checkpoint_copied_t),
    WEFT_NAMED_SIZE(weft_checkpoint_export_config_t),
    WEFT_NAMED_SIZE(weft_checkpoint_import_config_t),
    WEFT_NAMED_SIZE(weft_checkpoint_load_config_t),
    WEFT_NAMED_SIZE(weft_checkpoint_loaded_t),
    WEFT_NAMED_SIZE(weft_checkpoint_save_config_t),
    WEFT_NAMED_SIZE(weft_checkpoint_tensor_t),
    WEFT_NAMED_SIZE(weft_checkpoint_value_t),
    WEFT_NAMED_SIZE(weft_completion_queue_config_t),
    WEFT_NAMED_SIZE(weft_completion_t),
    WEFT_NAMED_SIZE(weft_device_info_t),
    WEFT_NAMED_SIZE(weft_error_info_t),
    WEFT_NAMED_SIZE(weft_explain_query_t),
    WEFT_NAMED_SIZE(weft_group_config_t),
    WEFT_NAMED_SIZE(weft_group_stats_t),
    WEFT_NAMED_SIZE(weft_iov_t),
    WEFT_NAMED_SIZE(weft_mem_config_t),
    WEFT_NAMED_SIZE(weft_mem_info_t),
    WEFT_NAMED_SIZE(weft_mesh_config_t),
    WEFT_NAMED_SIZE(weft_message_info_t),
    WEFT_NAMED_SIZE(weft_optimizer_config_t),
    WEFT_NAMED_SIZE(weft_option_info_t),
    WEFT_NAMED_SIZE(weft_shard_allocator_t),
    WEFT_NAMED_SIZE(weft_shard_config_t),
    WEFT_NAMED_SIZE(weft_shard_global_t),
    WEFT_NAMED_SIZE(weft_shard_grouping_t),
    WEFT_NAMED_SIZE(weft_shard_load_t),
    WEFT_NAMED_SIZE(weft_shard_microbatch_t),
    WEFT_NAMED_SIZE(weft_shard_norm_t),
    WEFT_NAMED_SIZE(weft_shard_offload_t),
    WEFT_NAMED_SIZE(weft_shard_param_config_t),
    WEFT_NAMED_SIZE(weft_shard_param_group_t),
    WEFT_NAMED_SIZE(weft_shard_param_info_t),
    WEFT_NAMED_SIZE(weft_shard_part_t),
    WEFT_NAMED_SIZE(weft_shard_plan_t),
    WEFT_NAMED_SIZE(weft_shard_policy_t),
    WEFT_NAMED_SIZE(weft_shard_rank_report_t),
    WEFT_NAMED_SIZE(weft_shard_read_t),
    WEFT_NAMED_SIZE(weft_shard_report_t),
    WEFT_NAMED_SIZE(weft_shard_run_t),
    WEFT_NAMED_SIZE(weft_shard_settings_t),
    WEFT_NAMED_SIZE(weft_shard_state_part_t),
    WEFT_NAMED_SIZE(weft_shard_state_scalars_t),
    WEFT_NAMED_SIZE(weft_shard_step_result_t),
    WEFT_NAMED_SIZE(weft_shard_step_t),
    WEFT_NAMED_SIZE(weft_shard_unit_info_t),
    WEFT_NAMED_SIZE(weft_shard_unshard_t),
    WEFT_NAMED_SIZE(weft_shard_update_result_t),
    WEFT_NAMED_SIZE(weft_shard_update_t),
    WEFT_NAMED_SIZE(weft_shard_view_t),
    WEFT_NAMED_SIZE(weft_store_callbacks_t),
    WEFT_NAMED_SIZE(weft_tensor_t),
    WEFT_NAMED_SIZE(weft_unique_id_t),
    WEFT_NAMED_SIZE(weft_user_op_config_t),
};

#undef WEFT_NAMED_SIZE

}  // namespace
}  // namespace weft

size_t weft_struct_size(const char* name) {
  if (name == nullptr) return 0;
  const std::string_view wanted = name;
  for (const weft::NamedSize& known : weft::kStructs) {
    if (known.name == wanted) return known.bytes;
  }
  return 0;
}
