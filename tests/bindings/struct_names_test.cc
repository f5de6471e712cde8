// weft_struct_size knows every struct of include/weft by its name.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {
namespace {

#define NAMED(type) std::make_pair(#type, sizeof(type))

// As a program compiled against these headers has them.
const std::map<std::string, size_t> kStructs = {
    NAMED(weft_allocator_t),
    NAMED(weft_call_t),
    NAMED(weft_checkpoint_config_t),
    NAMED(weft_checkpoint_copied_t),
    NAMED(weft_checkpoint_export_config_t),
    NAMED(weft_checkpoint_import_config_t),
    NAMED(weft_checkpoint_load_config_t),
    NAMED(weft_checkpoint_loaded_t),
    NAMED(weft_checkpoint_save_config_t),
    NAMED(weft_checkpoint_tensor_t),
    NAMED(weft_checkpoint_value_t),
    NAMED(weft_completion_queue_config_t),
    NAMED(weft_completion_t),
    NAMED(weft_device_info_t),
    NAMED(weft_error_info_t),
    NAMED(weft_explain_query_t),
    NAMED(weft_group_config_t),
    NAMED(weft_group_stats_t),
    NAMED(weft_iov_t),
    NAMED(weft_mem_config_t),
    NAMED(weft_mem_info_t),
    NAMED(weft_mesh_config_t),
    NAMED(weft_message_info_t),
    NAMED(weft_optimizer_config_t),
    NAMED(weft_option_info_t),
    NAMED(weft_shard_allocator_t),
    NAMED(weft_shard_config_t),
    NAMED(weft_shard_global_t),
    NAMED(weft_shard_grouping_t),
    NAMED(weft_shard_load_t),
    NAMED(weft_shard_microbatch_t),
    NAMED(weft_shard_norm_t),
    NAMED(weft_shard_offload_t),
    NAMED(weft_shard_param_config_t),
    NAMED(weft_shard_param_group_t),
    NAMED(weft_shard_param_info_t),
    NAMED(weft_shard_part_t),
    NAMED(weft_shard_plan_t),
    NAMED(weft_shard_policy_t),
    NAMED(weft_shard_rank_report_t),
    NAMED(weft_shard_read_t),
    NAMED(weft_message_info_t),
    NAMED(weft_shard_report_t),
    NAMED(weft_shard_run_t),
    NAMED(weft_shard_settings_t),
    NAMED(weft_shard_state_part_t),
    NAMED(weft_shard_state_scalars_t),
    NAMED(weft_shard_step_result_t),
    NAMED(weft_shard_step_t),
    NAMED(weft_shard_unit_info_t),
    NAMED(weft_shard_unshard_t),
    NAMED(weft_shard_update_result_t),
    NAMED(weft_shard_update_t),
    NAMED(weft_shard_view_t),
    NAMED(weft_store_callbacks_t),
    NAMED(weft_tensor_t),
    NAMED(weft_unique_id_t),
    NAMED(weft_user_op_config_t),
};

#undef NAMED

std::set<std::string> DeclaredStructs() {
  std::set<std::string> structs;
  const std::regex definition(R"(typedef struct (weft_\w+) \{[^}]*\} (weft_\w+_t);)");
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_HEADERS)) {
    if (entry.path().extension() != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string header = text.str();
    for (std::sregex_iterator i(header.begin(), header.end(), definition), end; i != end; ++i)
      structs.insert((*i)[2]);
  }
  return structs;
}

TEST(StructNames, OfAllHeadersAreKnown) {
  const std::set<std::string> declared = DeclaredStructs();
  EXPECT_GT(declared.size(), 20u);
  std::set<std::string> listed;
  for (const auto& [name, bytes] : kStructs)
    listed.insert(name);
  EXPECT_EQ(listed, declared);
  for (const std::string& name : declared)
    EXPECT_GT(weft_struct_size(name.c_str()), 0u)
        << name << ": add it to bindings/c/struct_names.cc";
}

TEST(StructNames, HaveTheSizesOfTheHeaders) {
  for (const auto& [name, bytes] : kStructs)
    EXPECT_EQ(weft_struct_size(name.c_str()), bytes) << name;
}

TEST(StructNames, OfAnythingElseHaveNoSize) {
  for (const char* name :
       {"", "weft_call", "weft_call_t ", "WEFT_CALL_T", "weft_group_t", "weft_result_t", "size_t"})
    EXPECT_EQ(weft_struct_size(name), 0u) << name;
  EXPECT_EQ(weft_struct_size(nullptr), 0u);
}

}  // namespace
}  // namespace weft::test
