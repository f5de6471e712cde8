// Structs that begin with struct_size, of callers compiled against older or newer headers than this
// library: docs/abi.md says what they are promised.
//
//   weft_call_t call{};                                   // the defaults
//   WEFT_RETURN_IF_ERROR(ReadConfig(kCall, given, &call));
//
//   WEFT_RETURN_IF_ERROR(CheckAnswer(kCall, answer));     // before anything is done
//   WriteAnswer(made, answer);
//
// A caller's struct has struct_size bytes. None beyond them is read or written: what lies there may be
// the end of its memory. Where struct_size is 0 it has at least the bytes of the oldest version.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "weft/checkpoint.h"
#include "weft/checkpoint_files.h"
#include "weft/completion_queue.h"
#include "weft/device.h"
#include "weft/dlpack.h"
#include "weft/error.h"
#include "weft/explain.h"
#include "weft/group.h"
#include "weft/mem.h"
#include "weft/op.h"
#include "weft/options.h"
#include "weft/point_to_point.h"
#include "weft/shard.h"
#include "weft/store.h"
#include "weft/types.h"

#include "absl/status/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"

namespace weft {

// The size that a struct had in its oldest version: of configs, in 0.1.0; of answers, what is asked for
// at least. A new struct gets a line here, with its size; a line never changes.
template <typename T>
inline constexpr size_t kOldestBytes = 0;

template <>
inline constexpr size_t kOldestBytes<weft_allocator_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_call_t> = 56;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_config_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_copied_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_export_config_t> = 64;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_import_config_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_load_config_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_loaded_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_save_config_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_tensor_t> = 56;
template <>
inline constexpr size_t kOldestBytes<weft_checkpoint_value_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_completion_queue_config_t> = 16;
template <>
inline constexpr size_t kOldestBytes<weft_device_info_t> = 248;
template <>
inline constexpr size_t kOldestBytes<weft_error_info_t> = 16;
template <>
inline constexpr size_t kOldestBytes<weft_explain_query_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_group_config_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_group_stats_t> = 8;
template <>
inline constexpr size_t kOldestBytes<weft_mem_config_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_mem_info_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_mesh_config_t> = 56;
template <>
inline constexpr size_t kOldestBytes<weft_message_info_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_optimizer_config_t> = 112;
template <>
inline constexpr size_t kOldestBytes<weft_option_info_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_shard_allocator_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_shard_config_t> = 96;
template <>
inline constexpr size_t kOldestBytes<weft_shard_global_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_shard_grouping_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_shard_load_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_shard_microbatch_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_shard_norm_t> = 584;
template <>
inline constexpr size_t kOldestBytes<weft_shard_offload_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_shard_param_config_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_shard_param_group_t> = 80;
template <>
inline constexpr size_t kOldestBytes<weft_shard_param_info_t> = 320;
template <>
inline constexpr size_t kOldestBytes<weft_shard_part_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_shard_plan_t> = 72;
template <>
inline constexpr size_t kOldestBytes<weft_shard_policy_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_shard_rank_report_t> = 80;
template <>
inline constexpr size_t kOldestBytes<weft_shard_read_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_shard_report_t> = 56;
template <>
inline constexpr size_t kOldestBytes<weft_shard_state_part_t> = 64;
template <>
inline constexpr size_t kOldestBytes<weft_shard_state_scalars_t> = 64;
template <>
inline constexpr size_t kOldestBytes<weft_shard_settings_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_shard_step_result_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_shard_step_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_shard_unit_info_t> = 80;
template <>
inline constexpr size_t kOldestBytes<weft_shard_unshard_t> = 32;
template <>
inline constexpr size_t kOldestBytes<weft_shard_update_t> = 24;
template <>
inline constexpr size_t kOldestBytes<weft_shard_update_result_t> = 48;
template <>
inline constexpr size_t kOldestBytes<weft_shard_view_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_store_callbacks_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_tensor_t> = 40;
template <>
inline constexpr size_t kOldestBytes<weft_user_op_config_t> = 40;

// More than any struct of this interface will ever have: a struct_size that was never set.
constexpr size_t kStructBytesMax = 4096;

inline bool IsZero(const char* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](char byte) { return byte == 0; });
}

// Copies a caller's config into `*full`, which holds the defaults. NULL or a struct_size of 0 leave
// them; a larger struct_size than this library's is accepted only if what it does not know is zero.
// The size of a struct is a multiple of its alignment; any other number would cut a field in two.
template <typename T>
absl::Status ReadConfig(std::string_view call, const T* given, T* full) {
  static_assert(kOldestBytes<T> > 0 && kOldestBytes<T> <= sizeof(T));
  if (given == nullptr) return absl::OkStatus();
  const char* const from = reinterpret_cast<const char*>(given);
  size_t bytes = 0;  // read by itself: the rest of the struct may not be there
  std::memcpy(&bytes, from, sizeof(bytes));
  if (bytes == 0) {
    return IsZero(from, kOldestBytes<T>)
               ? absl::OkStatus()
               : InvalidArgument(call,
                                 "the config's struct_size is 0 but other fields are set; set "
                                 "struct_size to sizeof the struct");
  }
  if (bytes < sizeof(size_t) || bytes > kStructBytesMax || bytes % alignof(T) != 0) {
    return InvalidArgument(call, StrCat("struct_size ", bytes, " is not the size of this struct (",
                                        sizeof(T), "); set it to sizeof the struct"));
  }
  if (bytes > sizeof(T) && !IsZero(from + sizeof(T), bytes - sizeof(T))) {
    return CallError(WEFT_UNSUPPORTED, call,
                     "the config sets fields that this older library does not know");
  }
  std::memcpy(static_cast<void*>(full), from, std::min(bytes, sizeof(T)));
  full->struct_size = sizeof(T);
  return absl::OkStatus();
}

// Whether `answer` has room: at least that of the oldest version, and no limit to the other side.
template <typename T>
absl::Status CheckAnswer(std::string_view call, const T* answer) {
  static_assert(kOldestBytes<T> > 0 && kOldestBytes<T> <= sizeof(T));
  const size_t bytes = answer->struct_size;
  if (bytes >= kOldestBytes<T> && bytes <= kStructBytesMax && bytes % alignof(T) == 0) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      call, StrCat("the answer's struct_size is ", bytes, ", this weft's struct has ", sizeof(T),
                   "; set it to the struct's sizeof before the call"));
}

// Fills as much of the caller's struct as it has. What this library does not know is 0, as if nobody
// had set it.
template <typename T>
void WriteAnswer(const T& made, T* answer) {
  const size_t bytes = answer->struct_size;
  const size_t known_bytes = std::min(bytes, sizeof(T));
  auto* const to = reinterpret_cast<char*>(answer);
  std::memcpy(to, &made, known_bytes);
  std::memset(to + known_bytes, 0, bytes - known_bytes);
  std::memcpy(to, &bytes, sizeof(bytes));
}

}  // namespace weft
