/* The structs that begin with struct_size as the headers of 0.1.0 have them, under names of their own: what a
 * program holds that was compiled then. Never changed; a struct that came later is not here. */
#ifndef WEFT_TESTS_BINDINGS_STRUCTS_0_1_H_
#define WEFT_TESTS_BINDINGS_STRUCTS_0_1_H_

#include "weft/shard.h"
#include "weft/weft.h"

typedef struct v01_group_config {
  size_t struct_size;
  const char* name;
  int64_t timeout_ns;
  int64_t init_timeout_ns;
} v01_group_config_t;

typedef struct v01_group_stats {
  size_t struct_size;
  uint64_t collectives;
  uint64_t messages;
  uint64_t failures;
  uint64_t in_bytes;
  uint64_t out_bytes;
  uint64_t pending;
  int64_t wait_ns;
  uint64_t shared_bytes;
  uint64_t private_bytes;
} v01_group_stats_t;

typedef struct v01_allocator {
  size_t struct_size;
  void* (*allocate)(size_t bytes, size_t alignment, void* user);
  void (*release)(void* memory, size_t bytes, void* user);
  void* user;
} v01_allocator_t;

typedef struct v01_error_info {
  size_t struct_size;
  weft_result_t result;
  int32_t rank;
  int32_t pid;
  int32_t signal;
  int32_t exit_code;
  int64_t sequence;
  char host[64];
  char group[64];
  char operation[32];
} v01_error_info_t;

typedef struct v01_store_callbacks {
  size_t struct_size;
  void* user;
  weft_result_t (*set)(void* user, const char* key, const void* value, size_t size);
  weft_result_t (*get)(void* user, const char* key, void* value, size_t* size, int64_t timeout_ns);
  weft_result_t (*add)(void* user, const char* key, int64_t delta, int64_t* result);
} v01_store_callbacks_t;

typedef struct v01_call {
  size_t struct_size;
  int64_t timeout_ns;
  const char* algorithm;
  uint32_t fields;
  weft_dtype_t wire_dtype;
  weft_numerics_t numerics;
  int32_t priority;
  uint64_t tag;
  void* stream;
} v01_call_t;

typedef struct v01_explain_query {
  size_t struct_size;
  const char* operation;
  size_t count;
  weft_dtype_t dtype;
  weft_op_t op;
  int symmetric;
} v01_explain_query_t;

typedef struct v01_option_info {
  size_t struct_size;
  const char* environment;
  const char* type;
  const char* default_value;
  const char* meaning;
} v01_option_info_t;

typedef struct v01_shard_policy {
  size_t struct_size;
  weft_shard_preset_t preset;
  weft_shard_cut_t cut;
  int64_t cut_rows;
  int float32_gradients;
  weft_shard_wire_t wire;
  weft_shard_place_t params;
  weft_shard_place_t between;
  weft_shard_place_t gradients;
  weft_shard_place_t optimizer;
} v01_shard_policy_t;

typedef struct v01_shard_allocator {
  size_t struct_size;
  void* (*allocate)(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user);
  void (*release)(void* memory, size_t bytes, weft_shard_tier_t tier, void* user);
  void* user;
} v01_shard_allocator_t;

typedef struct v01_shard_plan {
  size_t struct_size;
  size_t unit_count;
  size_t param_count;
  size_t bucket_count;
  uint64_t element_count;
  uint64_t param_bytes;
  uint64_t grad_bytes;
  uint64_t padding_bytes;
  uint64_t traffic_bytes;
  uint64_t optimizer_bytes;
  uint64_t pool_bytes;
  uint64_t gather_bytes;
  uint64_t largest_unit_bytes;
  int prefetch;
  uint64_t resting_bytes;
  uint64_t peak_bytes;
  uint64_t sent_bytes;
  uint64_t sent_inner_bytes;
} v01_shard_plan_t;

typedef struct v01_shard_rank_report {
  size_t struct_size;
  uint64_t element_count;
  uint64_t param_bytes;
  uint64_t grad_bytes;
  uint64_t optimizer_bytes;
  uint64_t pool_bytes;
  int64_t step_count;
  int64_t busy_ns;
  int64_t gather_waited_ns;
  int64_t reduce_waited_ns;
} v01_shard_rank_report_t;

typedef struct v01_shard_report {
  size_t struct_size;
  int rank_count;
  int largest_rank;
  int smallest_rank;
  int slowest_rank;
  uint64_t largest_element_count;
  uint64_t smallest_element_count;
  int64_t slowest_busy_ns;
  int64_t median_busy_ns;
} v01_shard_report_t;

typedef struct v01_shard_grouping {
  size_t struct_size;
  const char* by_prefix;
  size_t min_bytes;
} v01_shard_grouping_t;

typedef struct v01_shard_step_result {
  size_t struct_size;
  int64_t comm_ns;
  int64_t comm_exposed_ns;
  uint64_t reduced_bytes;
  int order_changed;
  int replayed;
  int64_t gather_exposed_ns;
  uint64_t gathered_bytes;
  uint64_t pool_bytes;
} v01_shard_step_result_t;

typedef struct v01_optimizer_config {
  size_t struct_size;
  weft_optimizer_kind_t kind;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double momentum;
  double trust;
  int nesterov;
  double loss_scale;
  int dynamic_loss_scale;
  int64_t loss_scale_growth_steps;
  int64_t loss_scale_hysteresis;
  int threads;
} v01_optimizer_config_t;

typedef struct v01_shard_update {
  size_t struct_size;
  double learning_rate;
  double norm_max;
} v01_shard_update_t;

typedef struct v01_shard_update_result {
  size_t struct_size;
  double grad_norm;
  double loss_scale;
  int64_t nonfinite;
  int64_t update_count;
  int skipped;
} v01_shard_update_result_t;

typedef struct v01_mesh_config {
  size_t struct_size;
  int axis_count;
  const char* axis_names[6];
  int axis_sizes[6];
} v01_mesh_config_t;

typedef struct v01_shard_config {
  size_t struct_size;
  size_t bucket_bytes;
  size_t first_bucket_bytes;
  weft_shard_accumulation_t accumulation;
  int no_overlap;
  int no_average;
  int64_t timeout_ns;
  int prefetch;
  int microbatches;
  size_t memory_budget_bytes;
  int uneven;
  const weft_shard_allocator_t* allocator;
  int poison;
  int64_t verify_steps;
} v01_shard_config_t;

typedef struct v01_shard_view {
  size_t struct_size;
  void* data;
  void* grad;
  size_t count;
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype;
} v01_shard_view_t;

typedef struct v01_shard_part {
  size_t struct_size;
  void* data;
  void* grad;
  size_t begin;
  size_t count;
  weft_dtype_t dtype;
  weft_dtype_t grad_dtype;
} v01_shard_part_t;

typedef struct v01_shard_param_info {
  size_t struct_size;
  const char* name;
  weft_shard_unit_t unit;
  const char* unit_name;
  weft_shard_param_t tied_to;
  size_t count;
  int64_t shape[WEFT_SHARD_DIMS_MAX];
  int ndim;
  weft_dtype_t dtype;
  uint32_t flags;
  int index;
} v01_shard_param_info_t;

typedef struct v01_shard_unit_info {
  size_t struct_size;
  const char* name;
  size_t index;
  size_t param_count;
  weft_shard_preset_t preset;
  weft_shard_place_t params;
  weft_shard_place_t between;
  weft_shard_place_t gradients;
  weft_shard_place_t optimizer;
  weft_shard_cut_t cut;
  int64_t cut_rows;
  int float32_gradients;
  weft_shard_wire_t wire;
  int sealed;
  int unsharded;
} v01_shard_unit_info_t;

typedef struct v01_mem_config {
  size_t struct_size;
  size_t bytes;
  uint32_t flags;
  weft_device_kind_t device_kind;
  int32_t device;
  void* stream;
} v01_mem_config_t;

typedef struct v01_mem_info {
  size_t struct_size;
  weft_mem_kind_t kind;
  weft_device_kind_t device_kind;
  int32_t device;
  int32_t references;
  void* base;
  size_t bytes;
} v01_mem_info_t;

typedef struct v01_device_info {
  size_t struct_size;
  char name[128];
  char bus_id[32];
  char uuid[48];
  uint64_t total_bytes;
  int32_t device;
  int32_t compute_major;
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t driver_version;
  uint32_t flags;
} v01_device_info_t;

#endif /* WEFT_TESTS_BINDINGS_STRUCTS_0_1_H_ */
