/* A program that was compiled against the headers of 0.1.0, and one whose headers know a field more than this library:
 * every struct with struct_size, at the end of a page. Says which line did not hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/device.h"
#include "weft/shard_checks.h"
#include "weft/shard_plan.h"

#include "page_end.h"
#include "structs_0_1.h"

#define EXPECT(condition, name)                                                                \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "line %d: %s: %s: %s\n", __LINE__, name, #condition, weft_last_error()); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

static weft_group_t group;
static weft_mesh_t mesh;
static weft_shard_context_t context;
static weft_shard_unit_t unit;
static weft_shard_param_t param;
static void* block;

/* ---- what the callbacks do ---- */

static void* Allocate(size_t bytes, size_t alignment, void* user) {
  (void)user;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void Release(void* memory, size_t bytes, void* user) {
  (void)bytes;
  (void)user;
  free(memory);
}

static void* AllocateTier(size_t bytes, size_t alignment, weft_shard_tier_t tier, void* user) {
  (void)tier;
  return Allocate(bytes, alignment, user);
}

static void ReleaseTier(void* memory, size_t bytes, weft_shard_tier_t tier, void* user) {
  (void)tier;
  Release(memory, bytes, user);
}

static weft_result_t Set(void* user, const char* key, const void* value, size_t size) {
  (void)user, (void)key, (void)value, (void)size;
  return WEFT_SUCCESS;
}

static weft_result_t Get(void* user, const char* key, void* value, size_t* size,
                         int64_t timeout_ns) {
  (void)user, (void)key, (void)value, (void)size, (void)timeout_ns;
  return WEFT_TIMEOUT;
}

static weft_result_t Add(void* user, const char* key, int64_t delta, int64_t* result) {
  (void)user, (void)key;
  *result = delta;
  return WEFT_SUCCESS;
}

/* ---- calls that take a config ---- */

static weft_result_t SetAllocator(const void* config) {
  const weft_result_t result = weft_set_allocator((const weft_allocator_t*)config);
  EXPECT(weft_set_allocator(NULL) == WEFT_SUCCESS, "weft_set_allocator");
  return result;
}

static weft_result_t CreateStore(const void* config) {
  weft_store_t store = NULL;
  const weft_result_t result =
      weft_store_create_callbacks((const weft_store_callbacks_t*)config, &store);
  weft_store_destroy(store);
  return result;
}

static weft_result_t CreateGroup(const void* config) {
  weft_group_t made = NULL;
  const weft_result_t result =
      weft_group_create_local(1, (const weft_group_config_t*)config, &made);
  weft_group_destroy(made);
  return result;
}

static weft_result_t Call(const void* config) {
  return weft_barrier(group, (const weft_call_t*)config, NULL);
}

static weft_result_t Explain(const void* config) {
  char text[4096];
  return weft_explain(group, (const weft_explain_query_t*)config, text, sizeof text, NULL);
}

static weft_result_t CreateMesh(const void* config) {
  weft_mesh_t made = NULL;
  const weft_result_t result = weft_mesh_create(group, (const weft_mesh_config_t*)config, &made);
  weft_mesh_destroy(made);
  return result;
}

static weft_result_t CreateContext(const void* config) {
  weft_shard_context_t made = NULL;
  const weft_result_t result =
      weft_shard_context_create(mesh, (const weft_shard_config_t*)config, &made);
  weft_shard_context_destroy(made);
  return result;
}

static weft_result_t CreateContextWithAllocator(const void* config) {
  weft_shard_config_t with = {0};
  with.struct_size = sizeof with;
  with.allocator = (const weft_shard_allocator_t*)config;
  return CreateContext(&with);
}

static weft_result_t BeginUnit(const void* config) {
  weft_shard_context_t made = NULL;
  weft_shard_unit_t begun = NULL;
  EXPECT(weft_shard_context_create(mesh, NULL, &made) == WEFT_SUCCESS, "weft_shard_context_create");
  const weft_result_t result =
      weft_shard_unit_begin(made, "u", (const weft_shard_policy_t*)config, &begun);
  weft_shard_context_destroy(made);
  return result;
}

static weft_result_t AddUnits(const void* config) {
  weft_shard_context_t made = NULL;
  weft_shard_param_t added = NULL;
  weft_shard_unit_t units = NULL;
  size_t unit_count = 1;
  const int64_t shape[] = {8};
  weft_shard_param_config_t spec;
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.name = "p";
  spec.shape = shape;
  spec.ndim = 1;
  spec.dtype = WEFT_FLOAT32;
  EXPECT(weft_shard_context_create(mesh, NULL, &made) == WEFT_SUCCESS, "weft_shard_context_create");
  const weft_result_t result = weft_shard_add_units(
      made, &spec, 1, (const weft_shard_grouping_t*)config, NULL, &added, &units, &unit_count);
  weft_shard_context_destroy(made);
  return result;
}

static weft_result_t SetOptimizer(const void* config) {
  weft_shard_context_t made = NULL;
  EXPECT(weft_shard_context_create(mesh, NULL, &made) == WEFT_SUCCESS, "weft_shard_context_create");
  const weft_result_t result =
      weft_shard_context_optimizer(made, (const weft_optimizer_config_t*)config);
  weft_shard_context_destroy(made);
  return result;
}

/* A step; `result` and `update` and `updated` may be NULL. */
static weft_result_t Step(weft_shard_step_result_t* finished, const weft_shard_update_t* update,
                          weft_shard_update_result_t* updated) {
  const weft_shard_update_t small = {sizeof small, 0.1, 0};
  EXPECT(weft_shard_step_begin(context, NULL) == WEFT_SUCCESS, "step_begin");
  EXPECT(weft_shard_microbatch_begin(context, NULL) == WEFT_SUCCESS, "microbatch_begin");
  EXPECT(weft_shard_pre_forward(unit, NULL) == WEFT_SUCCESS, "pre_forward");
  EXPECT(weft_shard_post_forward(unit, NULL) == WEFT_SUCCESS, "post_forward");
  EXPECT(weft_shard_pre_backward(unit, NULL) == WEFT_SUCCESS, "pre_backward");
  EXPECT(weft_shard_grad_ready(param, NULL, NULL) == WEFT_SUCCESS, "grad_ready");
  EXPECT(weft_shard_post_backward(unit, NULL) == WEFT_SUCCESS, "post_backward");
  EXPECT(weft_shard_microbatch_end(context, NULL) == WEFT_SUCCESS, "microbatch_end");
  weft_result_t result = weft_shard_finish(context, NULL, finished);
  if (result != WEFT_SUCCESS) {
    EXPECT(weft_shard_finish(context, NULL, NULL) == WEFT_SUCCESS, "finish");
  }
  const weft_result_t stepped =
      weft_shard_optimizer_step(context, update == NULL ? &small : update, updated);
  if (stepped != WEFT_SUCCESS) {
    result = stepped;
    EXPECT(weft_shard_optimizer_step(context, &small, NULL) == WEFT_SUCCESS, "optimizer_step");
  }
  EXPECT(weft_shard_step_end(context) == WEFT_SUCCESS, "step_end");
  return result;
}

static weft_result_t Update(const void* config) {
  return Step(NULL, (const weft_shard_update_t*)config, NULL);
}

/* ---- calls that give an answer ---- */

static weft_result_t ErrorInfo(void* answer) {
  return weft_last_error_info((weft_error_info_t*)answer);
}

static weft_result_t WorkErrorInfo(void* answer) {
  weft_work_t work = NULL;
  EXPECT(weft_barrier(group, NULL, &work) == WEFT_SUCCESS, "weft_barrier");
  EXPECT(weft_work_wait(work, 0) == WEFT_SUCCESS, "weft_work_wait");
  const weft_result_t result = weft_work_error_info(work, (weft_error_info_t*)answer);
  weft_work_free(work);
  return result;
}

static weft_result_t Stats(void* answer) {
  return weft_group_stats(group, (weft_group_stats_t*)answer);
}

static weft_result_t Option(void* answer) {
  return weft_option_at(0, (weft_option_info_t*)answer);
}

static weft_result_t Plan(void* answer) {
  weft_shard_context_t made = NULL;
  EXPECT(weft_shard_context_create(mesh, NULL, &made) == WEFT_SUCCESS, "weft_shard_context_create");
  const weft_result_t result = weft_shard_context_finalize(made, (weft_shard_plan_t*)answer);
  weft_shard_context_destroy(made);
  return result;
}

static weft_result_t Finish(void* answer) {
  return Step((weft_shard_step_result_t*)answer, NULL, NULL);
}

static weft_result_t Updated(void* answer) {
  return Step(NULL, NULL, (weft_shard_update_result_t*)answer);
}

static weft_result_t AllocateBlock(const void* config) {
  void* made = NULL;
  const weft_result_t result = weft_mem_alloc_on((const weft_mem_config_t*)config, &made);
  return result == WEFT_SUCCESS ? weft_mem_free(made) : result;
}

static weft_result_t View(void* answer) {
  return weft_shard_param_view(param, (weft_shard_view_t*)answer);
}

static weft_result_t Part(void* answer) {
  return weft_shard_param_part(param, (weft_shard_part_t*)answer);
}

static weft_result_t ParamInfo(void* answer) {
  return weft_shard_param_info(param, (weft_shard_param_info_t*)answer);
}

static weft_result_t UnitInfo(void* answer) {
  return weft_shard_unit_info(unit, (weft_shard_unit_info_t*)answer);
}

static weft_result_t Report(void* answer) {
  return weft_shard_context_report(context, (weft_shard_report_t*)answer, NULL, 0);
}

static weft_result_t RankReport(void* answer) {
  weft_shard_report_t report = {0};
  report.struct_size = sizeof report;
  return weft_shard_context_report(context, &report, (weft_shard_rank_report_t*)answer, 1);
}

static weft_result_t Query(void* answer) {
  return weft_mem_query(block, (weft_mem_info_t*)answer);
}

static weft_result_t DeviceInfo(void* answer) {
  return weft_device_info(WEFT_DEVICE_CUDA, 0, (weft_device_info_t*)answer);
}

/* ---- callers ---- */

/* A struct of `bytes` bytes, a copy of the first of them from `from`, that says to have `struct_size`. */
static void* Struct(size_t bytes, size_t struct_size, const void* from, size_t from_bytes) {
  char* const made = (char*)AtPageEnd(bytes);
  if (from != NULL) memcpy(made, from, from_bytes < bytes ? from_bytes : bytes);
  memcpy(made, &struct_size, sizeof struct_size);
  return made;
}

/* `old` is the struct of 0.1.0, filled so that the call succeeds; `now_bytes` what this library has. */
static void Config(const char* name, weft_result_t (*call)(const void*), const void* old,
                   size_t old_bytes, size_t now_bytes, weft_result_t of_defaults) {
  const size_t newer_bytes = now_bytes + sizeof(uint64_t);
  EXPECT(old_bytes <= now_bytes, name);
  EXPECT(call(Struct(old_bytes, 0, NULL, 0)) == of_defaults, name);
  EXPECT(call(Struct(newer_bytes, 0, NULL, 0)) == of_defaults, name);
  EXPECT(call(Struct(old_bytes, old_bytes, old, old_bytes)) == WEFT_SUCCESS, name);
  char* const newer = (char*)Struct(newer_bytes, newer_bytes, old, old_bytes);
  EXPECT(call(newer) == WEFT_SUCCESS, name);
  newer[newer_bytes - 1] = 1; /* the field that this library does not know */
  EXPECT(call(newer) == WEFT_UNSUPPORTED, name);
}

static void Answer(const char* name, weft_result_t (*call)(void*), size_t old_bytes,
                   size_t now_bytes) {
  const size_t newer_bytes = now_bytes + sizeof(uint64_t);
  EXPECT(old_bytes <= now_bytes, name);
  EXPECT(call(Struct(old_bytes, old_bytes, NULL, 0)) == WEFT_SUCCESS, name);
  char* const newer = (char*)Struct(newer_bytes, newer_bytes, NULL, 0);
  memset(newer + sizeof(size_t), 0x5a, newer_bytes - sizeof(size_t));
  EXPECT(call(newer) == WEFT_SUCCESS, name);
  size_t kept = 0;
  memcpy(&kept, newer, sizeof kept);
  EXPECT(kept == newer_bytes, name);
  uint64_t unknown = 1;
  memcpy(&unknown, newer + now_bytes, sizeof unknown);
  EXPECT(unknown == 0, name);
  EXPECT(call(Struct(old_bytes, 0, NULL, 0)) == WEFT_INVALID_ARGUMENT, name);
}

#define CONFIG(call, type, old, of_defaults) \
  Config(#type, call, &(old), sizeof(v01_##type), sizeof(weft_##type), of_defaults)
#define ANSWER(call, type) Answer(#type, call, sizeof(v01_##type), sizeof(weft_##type))

int main(void) {
  const v01_allocator_t allocator = {.allocate = Allocate, .release = Release};
  CONFIG(SetAllocator, allocator_t, allocator, WEFT_INVALID_ARGUMENT);
  const v01_store_callbacks_t callbacks = {.set = Set, .get = Get, .add = Add};
  CONFIG(CreateStore, store_callbacks_t, callbacks, WEFT_INVALID_ARGUMENT);
  const v01_group_config_t config = {.name = "old", .timeout_ns = INT64_C(10000000000)};
  CONFIG(CreateGroup, group_config_t, config, WEFT_SUCCESS);

  EXPECT(weft_group_create_local(1, NULL, &group) == WEFT_SUCCESS, "group");
  const v01_call_t options = {.timeout_ns = INT64_C(10000000000)};
  CONFIG(Call, call_t, options, WEFT_SUCCESS);
  const v01_explain_query_t query = {.operation = "all_reduce", .count = 8, .dtype = WEFT_FLOAT32};
  CONFIG(Explain, explain_query_t, query, WEFT_INVALID_ARGUMENT);
  const v01_mesh_config_t axes = {.axis_count = 1, .axis_names = {"data"}, .axis_sizes = {1}};
  CONFIG(CreateMesh, mesh_config_t, axes, WEFT_SUCCESS);

  const v01_mem_config_t memory = {.bytes = 100};
  CONFIG(AllocateBlock, mem_config_t, memory, WEFT_INVALID_ARGUMENT);
  EXPECT(weft_mem_alloc(100, 0, &block) == WEFT_SUCCESS, "block");
  ANSWER(Query, mem_info_t);
  EXPECT(weft_mem_free(block) == WEFT_SUCCESS, "block");
  int32_t devices = 0; /* of the driver that WEFT_CUDA_LIBRARY names */
  if (weft_device_count(WEFT_DEVICE_CUDA, &devices) == WEFT_SUCCESS && devices > 0) {
    ANSWER(DeviceInfo, device_info_t);
  }

  EXPECT(weft_mesh_create(group, NULL, &mesh) == WEFT_SUCCESS, "mesh");
  const v01_shard_config_t sharding = {.bucket_bytes = 4096};
  CONFIG(CreateContext, shard_config_t, sharding, WEFT_SUCCESS);
  const v01_shard_allocator_t tiers = {.allocate = AllocateTier, .release = ReleaseTier};
  CONFIG(CreateContextWithAllocator, shard_allocator_t, tiers, WEFT_INVALID_ARGUMENT);
  const v01_shard_policy_t policy = {.preset = WEFT_SHARD_FULL_SHARD};
  CONFIG(BeginUnit, shard_policy_t, policy, WEFT_SUCCESS);
  const v01_shard_grouping_t grouping = {.min_bytes = 64};
  CONFIG(AddUnits, shard_grouping_t, grouping, WEFT_INVALID_ARGUMENT);
  const v01_optimizer_config_t optimizer = {.kind = WEFT_OPTIMIZER_SGD};
  CONFIG(SetOptimizer, optimizer_config_t, optimizer, WEFT_SUCCESS);

  const int64_t shape[] = {8};
  EXPECT(weft_shard_context_create(mesh, NULL, &context) == WEFT_SUCCESS, "context");
  EXPECT(weft_shard_context_optimizer(context, NULL) == WEFT_SUCCESS, "optimizer");
  EXPECT(weft_shard_unit_begin(context, "u", NULL, &unit) == WEFT_SUCCESS, "unit");
  const weft_shard_param_config_t declared = {sizeof declared, "p", shape, 1, WEFT_FLOAT32, 0};
  EXPECT(weft_shard_unit_add_param(unit, &declared, &param) == WEFT_SUCCESS, "param");
  EXPECT(weft_shard_unit_seal(unit) == WEFT_SUCCESS, "seal");
  EXPECT(weft_shard_context_finalize(context, NULL) == WEFT_SUCCESS, "finalize");
  const v01_shard_update_t update = {.learning_rate = 0.1};
  CONFIG(Update, shard_update_t, update, WEFT_SUCCESS);

  ANSWER(ErrorInfo, error_info_t);
  ANSWER(WorkErrorInfo, error_info_t);
  ANSWER(Stats, group_stats_t);
  ANSWER(Option, option_info_t);
  ANSWER(Plan, shard_plan_t);
  ANSWER(Finish, shard_step_result_t);
  ANSWER(Updated, shard_update_result_t);
  ANSWER(View, shard_view_t);
  ANSWER(Part, shard_part_t);
  ANSWER(ParamInfo, shard_param_info_t);
  ANSWER(UnitInfo, shard_unit_info_t);
  ANSWER(Report, shard_report_t);
  ANSWER(RankReport, shard_rank_report_t);
  weft_shard_context_destroy(context);
  weft_mesh_destroy(mesh);
  weft_group_destroy(group);
  return 0;
}
