/* Every public header in C99, and a program's worth of calls in C. Says which line did not hold. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/collective.h"
#include "weft/completion_queue.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/group.h"
#include "weft/log.h"
#include "weft/mem.h"
#include "weft/options.h"
#include "weft/shard.h"
#include "weft/store.h"
#include "weft/types.h"
#include "weft/version.h"
#include "weft/weft.h"
#include "weft/work.h"

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, weft_last_error()); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

static void Count(weft_result_t result, void* user) {
  if (result == WEFT_SUCCESS) ++*(int*)user;
}

static int Collectives(weft_group_t group) {
  void* memory = NULL;
  EXPECT(weft_mem_alloc(4 * sizeof(float), 0, &memory) == WEFT_SUCCESS);
  float* x = (float*)memory;
  EXPECT(x[0] == 0.0f && x[3] == 0.0f);
  x[0] = 2.5f;
  weft_call_t call = {0};
  call.struct_size = sizeof(call);
  call.timeout_ns = INT64_C(10000000000);
  EXPECT(weft_all_reduce(x, x, 4, WEFT_FLOAT32, WEFT_SUM, group, &call, NULL) == WEFT_SUCCESS);
  EXPECT(x[0] == 2.5f);

  weft_work_t work = NULL;
  int calls = 0;
  EXPECT(weft_barrier(group, NULL, &work) == WEFT_SUCCESS);
  EXPECT(weft_work_wait(work, 0) == WEFT_SUCCESS);
  EXPECT(weft_work_on_complete(work, Count, &calls) == WEFT_SUCCESS);
  EXPECT(calls == 1);
  EXPECT(weft_work_free(work) == WEFT_SUCCESS);
  EXPECT(weft_mem_free(memory) == WEFT_SUCCESS);

  int32_t devices = 0;
  EXPECT(weft_device_count(WEFT_DEVICE_HOST, &devices) == WEFT_INVALID_ARGUMENT);
  return 0;
}

static int Completions(weft_group_t group) {
  weft_completion_queue_t queue = NULL;
  weft_completion_queue_config_t config = {0};
  config.struct_size = sizeof(config);
  EXPECT(weft_completion_queue_create(&config, &queue) == WEFT_SUCCESS);
  weft_work_t work = NULL;
  EXPECT(weft_barrier(group, NULL, &work) == WEFT_SUCCESS);
  EXPECT(weft_completion_queue_add(queue, work, 17) == WEFT_SUCCESS);
  EXPECT(weft_work_free(work) == WEFT_SUCCESS);
  weft_completion_t ended[2];
  size_t count = 0;
  EXPECT(weft_completion_queue_wait(queue, 0, ended, 2, &count) == WEFT_SUCCESS);
  EXPECT(count == 1 && ended[0].token == 17 && ended[0].result == WEFT_SUCCESS);
  EXPECT(strcmp(ended[0].message, "") == 0);
  EXPECT(weft_completion_queue_destroy(queue) == WEFT_SUCCESS);
  return 0;
}

static int Errors(void) {
  weft_error_info_t info;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  EXPECT(weft_barrier(NULL, NULL, NULL) == WEFT_INVALID_ARGUMENT);
  EXPECT(strstr(weft_last_error(), "barrier") != NULL);
  EXPECT(weft_last_error_info(&info) == WEFT_SUCCESS);
  EXPECT(info.result == WEFT_INVALID_ARGUMENT && info.rank == -1);
  EXPECT(strcmp(weft_result_name(info.result), "invalid_argument") == 0);
  return 0;
}

static int Settings(void) {
  weft_option_info_t option;
  memset(&option, 0, sizeof(option));
  option.struct_size = sizeof(option);
  EXPECT(weft_option_at(0, &option) == WEFT_SUCCESS);
  EXPECT(strncmp(option.environment, "WEFT_", 5) == 0);
  EXPECT(weft_log_set_level(WEFT_LOG_WARN) == WEFT_SUCCESS);
  EXPECT(weft_version() ==
         10000 * WEFT_VERSION_MAJOR + 100 * WEFT_VERSION_MINOR + WEFT_VERSION_PATCH);
  EXPECT(weft_dtype_size(WEFT_FLOAT32) == sizeof(float));
  EXPECT(sizeof(weft_unique_id_t) == WEFT_UNIQUE_ID_BYTES);
  return 0;
}

static int Shards(weft_group_t group) {
  weft_mesh_t mesh = NULL;
  weft_shard_context_t context = NULL;
  EXPECT(weft_mesh_create(group, NULL, &mesh) == WEFT_SUCCESS);
  EXPECT(weft_shard_context_create(mesh, NULL, &context) == WEFT_SUCCESS);
  EXPECT(weft_shard_context_destroy(context) == WEFT_SUCCESS);
  EXPECT(weft_mesh_destroy(mesh) == WEFT_SUCCESS);
  return 0;
}

/* A model of another program, which goes into a checkpoint and out again under another name. */
static int CheckpointFiles(void) {
  static const char header[] =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}      ";
  static const float values[2] = {1.5f, -2.0f};
  char folder[] = "/tmp/weft-c99-XXXXXX";
  char theirs[64], directory[64], ours[64];
  EXPECT(mkdtemp(folder) != NULL);
  snprintf(theirs, sizeof(theirs), "%s/theirs.safetensors", folder);
  snprintf(directory, sizeof(directory), "%s/checkpoints", folder);
  snprintf(ours, sizeof(ours), "%s/ours.safetensors", folder);
  const uint64_t length = sizeof(header) - 1;
  FILE* file = fopen(theirs, "wb");
  EXPECT(file != NULL);
  EXPECT(fwrite(&length, sizeof(length), 1, file) == 1);
  EXPECT(fwrite(header, (size_t)length, 1, file) == 1);
  EXPECT(fwrite(values, sizeof(values), 1, file) == 1);
  EXPECT(fclose(file) == 0);

  weft_checkpoint_import_config_t import = {0};
  import.struct_size = sizeof(import);
  import.source = theirs;
  import.directory = directory;
  weft_checkpoint_copied_t copied = {0};
  copied.struct_size = sizeof(copied);
  EXPECT(weft_checkpoint_import(&import, &copied) == WEFT_SUCCESS);
  EXPECT(copied.tensor_count == 1 && copied.value_bytes == sizeof(values));

  const char* const name = "w";
  const char* const file_name = "weight";
  weft_checkpoint_export_config_t config = {0};
  config.struct_size = sizeof(config);
  config.source = copied.checkpoint;
  config.target = ours;
  config.names = &name;
  config.file_names = &file_name;
  config.name_count = 1;
  EXPECT(weft_checkpoint_export(&config, &copied) == WEFT_SUCCESS);

  char text[512] = {0};
  file = fopen(ours, "rb");
  EXPECT(file != NULL);
  const size_t bytes = fread(text, 1, sizeof(text) - 1, file);
  EXPECT(fclose(file) == 0);
  EXPECT(bytes > sizeof(length) + sizeof(values));
  EXPECT(strstr(text + sizeof(length), "\"weight\":{\"dtype\":\"F32\",\"shape\":[2]") != NULL);
  EXPECT(strstr(text + sizeof(length), "\"format\":\"pt\"") != NULL);
  EXPECT(memcmp(text + bytes - sizeof(values), values, sizeof(values)) == 0);

  char command[128];
  snprintf(command, sizeof(command), "rm -r %s", folder);
  EXPECT(system(command) == 0);
  return 0;
}

int main(void) {
  weft_group_config_t config = {0};
  config.struct_size = sizeof(config);
  config.name = "c";
  weft_group_t group = NULL;
  EXPECT(weft_group_create_local(1, &config, &group) == WEFT_SUCCESS);
  if (Collectives(group) != 0 || Completions(group) != 0) return 1;
  if (Errors() != 0 || Settings() != 0 || Shards(group) != 0) return 1;
  if (CheckpointFiles() != 0) return 1;
  EXPECT(weft_group_destroy(group) == WEFT_SUCCESS);
  return 0;
}
