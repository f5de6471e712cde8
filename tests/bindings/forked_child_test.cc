// What a forked child may do with what its parent has made: nothing. Every call says so at once, and the parent goes on
// as if there were no child.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"
#include "weft/weft.hpp"

#include "tests/bindings/bad_input.h"
#include "tests/bindings/declared_functions.h"
#include "tests/bindings/shard_calls.h"
#include "tests/bindings/xla_frames.h"

namespace weft::test {
namespace {

// For all calls of a child together: one that waited for anything would wait for a group's timeout, 30 s.
constexpr unsigned kChildSeconds = 20;

// Functions that are not about anything that the parent has made. Files are read and written by the thread that calls. A store is callbacks, and a child may join a group
// through it; weft_progress moves what the child itself has started.
const std::set<std::string> kNotOfTheParent = {
    "weft_checkpoint_export",
    "weft_checkpoint_import",
    "weft_dtype_size",
    "weft_dtype_name",
    "weft_op_name",
    "weft_result_name",
    "weft_last_error",
    "weft_last_error_info",
    "weft_callback_failed",
    "weft_device_count",  // of a child whose parent has not opened a driver; tests/device has the others
    "weft_device_info",
    "weft_option_count",
    "weft_option_at",
    "weft_version",
    "weft_log_set_level",
    "weft_log_set_callback",
    "weft_set_allocator",
    "weft_batch_begin",
    "weft_batch_cancel",
    "weft_batch_end",
    "weft_progress",
    "weft_progress_fd",
    "weft_set_interrupt",
    "weft_shard_norm_add",
    "weft_op_create_user",
    "weft_op_create_premul_sum",
    "weft_op_destroy",
    "weft_unique_id_create",
    "weft_store_create_callbacks",
    "weft_store_destroy",
    "weft_mesh_create_dry",
    "weft_shard_preset_name",
    "weft_shard_preset_by_name",
    "weft_struct_size",
    "weft_completion_queue_create",
    "weft_xla_set_interrupted",
};

template <typename Answer>
Answer Sized() {
  Answer answer = {};
  answer.struct_size = sizeof(answer);
  return answer;
}

// What the parent has, and memory for the answers of a child's calls.
struct Things {
  Bench bench;
  weft_group_t group = bench.pair[0];
  int64_t xla_group = 0;
  weft_work_t work = nullptr;  // under way
  void* block = nullptr;
  void* pages = nullptr;  // registered
  float data[64] = {};
  void* out = nullptr;
  int number = 0;
};

using Call = std::function<weft_result_t(Things&)>;

struct NamedCall {
  const char* function;
  Call call;
};

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<NamedCall> GroupCalls() {
  return {
      {"weft_group_create_from_env",
       [](Things& t) {
         return weft_group_create_from_env(nullptr, &t.group);
       }},
      {"weft_group_create_from_id",
       [](Things& t) {
         const weft_unique_id_t id = {};
         return weft_group_create_from_id(&id, 2, 0, nullptr, &t.group);
       }},
      {"weft_batch_group_create_from_id",
       [](Things& t) {
         const weft_unique_id_t id = {};
         return weft_batch_group_create_from_id(&id, 2, 0, nullptr, &t.group);
       }},
      {"weft_batch_group_split",
       [](Things& t) {
         return weft_batch_group_split(t.group, 0, 0, nullptr, &t.bench.out.group);
       }},
      {"weft_group_join",
       [](Things& t) {
         return weft_group_join(t.bench.store, nullptr, &t.group);
       }},
      {"weft_group_create_from_store",
       [](Things& t) {
         return weft_group_create_from_store(t.bench.store, 2, 0, nullptr, &t.group);
       }},
      {"weft_group_create_local",
       [](Things& t) {
         return weft_group_create_local(1, nullptr, &t.group);
       }},
      {"weft_group_split",
       [](Things& t) {
         return weft_group_split(t.group, 0, 0, nullptr, &t.bench.out.group);
       }},
      {"weft_group_create_from_ranks",
       [](Things& t) {
         const int rank = 0;
         return weft_group_create_from_ranks(t.group, &rank, 1, nullptr, &t.bench.out.group);
       }},
      {"weft_group_reconfigure",
       [](Things& t) {
         return weft_group_reconfigure(t.group, nullptr, 0, nullptr);
       }},
      {"weft_group_newcomers",
       [](Things& t) {
         return weft_group_newcomers(t.group, t.bench.store, &t.number);
       }},
      {"weft_group_epoch",
       [](Things& t) {
         uint32_t epoch = 0;
         return weft_group_epoch(t.group, &epoch);
       }},
      {"weft_group_rank",
       [](Things& t) {
         return weft_group_rank(t.group, &t.number);
       }},
      {"weft_group_size",
       [](Things& t) {
         return weft_group_size(t.group, &t.number);
       }},
      {"weft_group_name",
       [](Things& t) {
         return weft_group_name(t.group, &t.bench.out.name);
       }},
      {"weft_group_stats",
       [](Things& t) {
         auto stats = Sized<weft_group_stats_t>();
         return weft_group_stats(t.group, &stats);
       }},
      {"weft_group_set_timeout",
       [](Things& t) {
         return weft_group_set_timeout(t.group, 1);
       }},
      {"weft_group_sequence",
       [](Things& t) {
         return weft_group_sequence(t.group, &t.bench.out.sequence);
       }},
      {"weft_group_error",
       [](Things& t) {
         return weft_group_error(t.group);
       }},
      {"weft_group_refuse",
       [](Things& t) {
         return weft_group_refuse(t.group, "barrier", "by a child");
       }},
      {"weft_group_abort",
       [](Things& t) {
         return weft_group_abort(t.group, "by a child");
       }},
      {"weft_explain",
       [](Things& t) {
         auto query = Sized<weft_explain_query_t>();
         query.operation = "all_reduce";
         query.count = 1;
         char text[16];
         return weft_explain(t.group, &query, text, sizeof(text), nullptr);
       }},
      {"weft_iprobe",
       [](Things& t) {
         return weft_iprobe(1, 0, &t.number, nullptr, t.group);
       }},
      {"weft_work_test",
       [](Things& t) {
         return weft_work_test(t.work, &t.number);
       }},
      {"weft_work_wait",
       [](Things& t) {
         return weft_work_wait(t.work, 0);
       }},
      {"weft_work_error",
       [](Things& t) {
         return weft_work_error(t.work);
       }},
      {"weft_work_stream_wait",
       [](Things& t) {
         return weft_work_stream_wait(t.work, nullptr);
       }},
      {"weft_work_error_info",
       [](Things& t) {
         auto info = Sized<weft_error_info_t>();
         return weft_work_error_info(t.work, &info);
       }},
      {"weft_work_error_message",
       [](Things& t) {
         return weft_work_error_message(t.work, &t.bench.out.name);
       }},
      {"weft_completion_queue_add",
       [](Things& t) {
         return weft_completion_queue_add(t.bench.queue, t.work, 1);
       }},
      {"weft_completion_queue_wait",
       [](Things& t) {
         return weft_completion_queue_wait(t.bench.queue, 0, t.bench.out.completions, 2,
                                           &t.bench.out.count);
       }},
      {"weft_completion_queue_poll",
       [](Things& t) {
         return weft_completion_queue_poll(t.bench.queue, t.bench.out.completions, 2,
                                           &t.bench.out.count);
       }},
      {"weft_completion_queue_wake",
       [](Things& t) {
         return weft_completion_queue_wake(t.bench.queue);
       }},
      {"weft_completion_queue_pending",
       [](Things& t) {
         return weft_completion_queue_pending(t.bench.queue, &t.bench.out.count);
       }},
      {"weft_completion_queue_fd",
       [](Things& t) {
         return weft_completion_queue_fd(t.bench.queue, &t.number);
       }},
      {"weft_completion_queue_destroy",
       [](Things& t) {
         return weft_completion_queue_destroy(t.bench.queue);
       }},
      {"weft_work_on_complete",
       [](Things& t) {
         return weft_work_on_complete(
             t.work, [](weft_result_t, void*) { abort(); }, nullptr);
       }},
      {"weft_work_free",
       [](Things& t) {
         return weft_work_free(t.work);
       }},
      {"weft_mem_alloc",
       [](Things& t) {
         return weft_mem_alloc(64, 0, &t.out);
       }},
      {"weft_mem_alloc_on",
       [](Things& t) {
         const weft_mem_config_t config = {.struct_size = sizeof(config), .bytes = 64};
         return weft_mem_alloc_on(&config, &t.out);
       }},
      {"weft_mem_dlpack",
       [](Things& t) {
         const weft_tensor_t tensor = {.struct_size = sizeof(tensor), .data = t.block};
         DLManagedTensorVersioned* managed = nullptr;
         return weft_mem_dlpack(&tensor, &managed);
       }},
      {"weft_mem_alloc_copy",
       [](Things& t) {
         return weft_mem_alloc_copy(t.data, sizeof(t.data), &t.out);
       }},
      {"weft_mem_retain",
       [](Things& t) {
         return weft_mem_retain(t.block, &t.out);
       }},
      {"weft_mem_query",
       [](Things& t) {
         weft_mem_info_t info = {};
         info.struct_size = sizeof(info);
         return weft_mem_query(t.block, &info);
       }},
      {"weft_mem_alloc_shared",
       [](Things& t) {
         return weft_mem_alloc_shared(t.group, 64, &t.out);
       }},
      {"weft_mem_free_shared",
       [](Things& t) {
         return weft_mem_free_shared(t.group, t.block);
       }},
      {"weft_mem_free",
       [](Things& t) {
         return weft_mem_free(t.block);
       }},
      {"weft_mem_free_on",
       [](Things& t) {
         return weft_mem_free_on(t.block, nullptr);
       }},
      {"weft_mem_register",
       [](Things&) {
         void* const own = aligned_alloc(4096, 4096);
         return weft_mem_register(own, 4096, 0);
       }},
      {"weft_mem_register_fd",
       [](Things&) {
         const int fd = memfd_create("child", MFD_CLOEXEC);
         if (ftruncate(fd, 4096) != 0) return WEFT_SYSTEM_ERROR;
         void* const own = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
         return weft_mem_register_fd(own, 4096, fd, 0, 0);
       }},
      {"weft_mem_deregister",
       [](Things& t) {
         return weft_mem_deregister(t.pages);
       }},
      {"weft_group_destroy",
       [](Things& t) {
         return weft_group_destroy(t.group);
       }},
  };
}

// Every operation, blocking and with a work.
// NOLINTNEXTLINE(readability-function-size): a table
void AddOperations(std::vector<NamedCall>* calls) {
  using T = Things&;
  using W = weft_work_t*;
  constexpr weft_dtype_t kType = WEFT_FLOAT32;
  static const size_t counts[2] = {1, 1};
  const auto parts = [](T t) {
    return weft_iov_t{t.data, t.data + 16, 1};
  };
  const std::pair<const char*, std::function<weft_result_t(T, W)>> operations[] = {
      {"weft_all_reduce",
       [](T t, W w) {
         return weft_all_reduce(t.data, t.data, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_reduce",
       [](T t, W w) {
         return weft_reduce(t.data, t.data, 1, kType, WEFT_SUM, 0, t.group, nullptr, w);
       }},
      {"weft_broadcast",
       [](T t, W w) {
         return weft_broadcast(t.data, t.data, 1, kType, 0, t.group, nullptr, w);
       }},
      {"weft_all_gather",
       [](T t, W w) {
         return weft_all_gather(t.data, t.data + 9, 1, kType, t.group, nullptr, w);
       }},
      {"weft_reduce_scatter",
       [](T t, W w) {
         return weft_reduce_scatter(t.data, t.data + 9, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_scan",
       [](T t, W w) {
         return weft_scan(t.data, t.data + 9, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_exscan",
       [](T t, W w) {
         return weft_exscan(t.data, t.data + 9, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_gather",
       [](T t, W w) {
         return weft_gather(t.data, t.data + 9, 1, kType, 0, t.group, nullptr, w);
       }},
      {"weft_scatter",
       [](T t, W w) {
         return weft_scatter(t.data, t.data + 9, 1, kType, 0, t.group, nullptr, w);
       }},
      {"weft_all_to_all",
       [](T t, W w) {
         return weft_all_to_all(t.data, t.data + 9, 1, kType, t.group, nullptr, w);
       }},
      {"weft_barrier",
       [](T t, W w) {
         return weft_barrier(t.group, nullptr, w);
       }},
      {"weft_all_gather_v",
       [](T t, W w) {
         return weft_all_gather_v(t.data, t.data + 9, counts, nullptr, kType, t.group, nullptr, w);
       }},
      {"weft_reduce_scatter_v",
       [](T t, W w) {
         return weft_reduce_scatter_v(t.data, t.data + 9, counts, nullptr, kType, WEFT_SUM, t.group,
                                      nullptr, w);
       }},
      {"weft_gather_v",
       [](T t, W w) {
         return weft_gather_v(t.data, 1, t.data + 9, counts, nullptr, kType, 0, t.group, nullptr,
                              w);
       }},
      {"weft_scatter_v",
       [](T t, W w) {
         return weft_scatter_v(t.data, counts, nullptr, t.data + 9, 1, kType, 0, t.group, nullptr,
                               w);
       }},
      {"weft_all_to_all_v",
       [](T t, W w) {
         return weft_all_to_all_v(t.data, counts, nullptr, t.data + 9, counts, nullptr, kType,
                                  t.group, nullptr, w);
       }},
      {"weft_all_reduce_iov",
       [parts](T t, W w) {
         const weft_iov_t part = parts(t);
         return weft_all_reduce_iov(&part, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_all_gather_iov",
       [parts](T t, W w) {
         const weft_iov_t part = parts(t);
         return weft_all_gather_iov(&part, 1, kType, t.group, nullptr, w);
       }},
      {"weft_reduce_scatter_iov",
       [parts](T t, W w) {
         const weft_iov_t part = parts(t);
         return weft_reduce_scatter_iov(&part, 1, kType, WEFT_SUM, t.group, nullptr, w);
       }},
      {"weft_send",
       [](T t, W w) {
         return weft_send(t.data, 1, kType, 1, 0, t.group, nullptr, w);
       }},
      {"weft_recv",
       [](T t, W w) {
         return weft_recv(t.data, 1, kType, 1, 0, nullptr, t.group, nullptr, w);
       }},
      {"weft_recv_info",
       [](T t, W w) {
         return weft_recv_info(t.data, 1, kType, 1, WEFT_ANY_TAG, nullptr, t.group, nullptr, w);
       }},
      {"weft_probe",
       [](T t, W w) {
         return weft_probe(1, 0, nullptr, t.group, nullptr, w);
       }},
      {"weft_sendrecv",
       [](T t, W w) {
         return weft_sendrecv(t.data, 1, 1, 0, t.data + 9, 1, 1, 0, kType, nullptr, t.group,
                              nullptr, w);
       }},
  };
  for (const auto& [function, operation] : operations) {
    calls->push_back({function, [operation = operation](T t) {
                        return operation(t, nullptr);
                      }});
    calls->push_back({function, [operation = operation](T t) {
                        weft_work_t work = nullptr;
                        const weft_result_t result = operation(t, &work);
                        return work == nullptr ? result : WEFT_INTERNAL_ERROR;
                      }});
  }
}

// NOLINTNEXTLINE(readability-function-size): a table
void AddShardCalls(std::vector<NamedCall>* calls) {
  using T = Things&;
  const NamedCall shard_calls[] = {
      {"weft_mesh_create",
       [](T t) {
         return weft_mesh_create(t.bench.solo, nullptr, &t.bench.out.mesh);
       }},
      {"weft_mesh_axis_group",
       [](T t) {
         return weft_mesh_axis_group(t.bench.mesh, 0, &t.bench.out.group);
       }},
      {"weft_mesh_group",
       [](T t) {
         const char* const name = "data";
         return weft_mesh_group(t.bench.mesh, &name, 1, &t.bench.out.group);
       }},
      {"weft_mesh_destroy",
       [](T t) {
         return weft_mesh_destroy(t.bench.mesh);
       }},
      {"weft_shard_context_create",
       [](T t) {
         return weft_shard_context_create(t.bench.mesh, nullptr, &t.bench.out.context);
       }},
      {"weft_shard_context_broadcast",
       [](T t) {
         return weft_shard_context_broadcast(t.bench.ready, 0);
       }},
      {"weft_shard_context_set",
       [](T t) {
         const weft_shard_settings_t settings = {.struct_size = sizeof(settings)};
         return weft_shard_context_set(t.bench.ready, &settings);
       }},
      {"weft_shard_context_verify",
       [](T t) {
         return weft_shard_context_verify(t.bench.ready);
       }},
      {"weft_shard_context_destroy",
       [](T t) {
         return weft_shard_context_destroy(t.bench.ready);
       }},
      {"weft_shard_unit_begin",
       [](T t) {
         return weft_shard_unit_begin(t.bench.open, "x", nullptr, &t.bench.out.unit);
       }},
      {"weft_shard_unit_add_param",
       [](T t) {
         const int64_t shape = 4;
         return AddParam(t.bench.open_unit, "x", &shape, 1, WEFT_FLOAT32, 0, &t.bench.out.param);
       }},
      {"weft_shard_unit_tie_param",
       [](T t) {
         return weft_shard_unit_tie_param(t.bench.open_unit, "x", t.bench.param,
                                          &t.bench.out.param);
       }},
      {"weft_shard_unit_seal",
       [](T t) {
         return weft_shard_unit_seal(t.bench.open_unit);
       }},
      {"weft_shard_add_units",
       [](T t) {
         const int64_t shape = 4;
         weft_shard_param_config_t spec = {};
         spec.struct_size = sizeof(spec);
         spec.name = "x";
         spec.shape = &shape;
         spec.ndim = 1;
         spec.dtype = WEFT_FLOAT32;
         size_t count = 1;
         return weft_shard_add_units(t.bench.open, &spec, 1, nullptr, nullptr, &t.bench.out.param,
                                     &t.bench.out.unit, &count);
       }},
      {"weft_shard_param_view",
       [](T t) {
         auto view = Sized<weft_shard_view_t>();
         return weft_shard_param_view(t.bench.param, &view);
       }},
      {"weft_shard_param_part",
       [](T t) {
         auto part = Sized<weft_shard_part_t>();
         return weft_shard_param_part(t.bench.param, &part);
       }},
      {"weft_shard_params_updated",
       [](T t) {
         return weft_shard_params_updated(t.bench.ready, nullptr);
       }},
      {"weft_shard_param_load",
       [](T t) {
         return LoadValues(t.bench.param, t.data, 0);
       }},
      {"weft_shard_param_read",
       [](T t) {
         return ReadValues(t.bench.param, t.data);
       }},
      {"weft_shard_param_interval",
       [](T t) {
         size_t begin = 0;
         size_t count = 0;
         return weft_shard_param_interval(t.bench.param, 0, &begin, &count);
       }},
      {"weft_shard_param_group_add",
       [](T t) {
         int group = 0;
         return weft_shard_param_group_add(t.bench.open, nullptr, &group);
       }},
      {"weft_shard_param_group_set",
       [](T t) {
         const auto numbers = Sized<weft_shard_param_group_t>();
         return weft_shard_param_group_set(t.bench.ready, 0, &numbers);
       }},
      {"weft_shard_param_group_get",
       [](T t) {
         auto numbers = Sized<weft_shard_param_group_t>();
         return weft_shard_param_group_get(t.bench.ready, 0, &numbers);
       }},
      {"weft_shard_param_set_group",
       [](T t) {
         return weft_shard_param_set_group(t.bench.param, 0);
       }},
      {"weft_shard_param_global",
       [](Things& t) {
         auto global = Sized<weft_shard_global_t>();
         global.name = "x";
         return weft_shard_param_global(t.bench.param, &global);
       }},
      {"weft_shard_param_info",
       [](T t) {
         auto info = Sized<weft_shard_param_info_t>();
         return weft_shard_param_info(t.bench.param, &info);
       }},
      {"weft_shard_unit_info",
       [](T t) {
         auto info = Sized<weft_shard_unit_info_t>();
         return weft_shard_unit_info(t.bench.unit, &info);
       }},
      {"weft_shard_context_unit_count",
       [](T t) {
         size_t count = 0;
         return weft_shard_context_unit_count(t.bench.ready, &count);
       }},
      {"weft_shard_context_unit_at",
       [](T t) {
         return weft_shard_context_unit_at(t.bench.ready, 0, &t.bench.out.unit);
       }},
      {"weft_shard_context_unit_by_name",
       [](T t) {
         return weft_shard_context_unit_by_name(t.bench.ready, "block", &t.bench.out.unit);
       }},
      {"weft_shard_unit_param_at",
       [](T t) {
         return weft_shard_unit_param_at(t.bench.unit, 0, &t.bench.out.param);
       }},
      {"weft_shard_context_param_by_name",
       [](T t) {
         return weft_shard_context_param_by_name(t.bench.ready, "weight", &t.bench.out.param);
       }},
      {"weft_shard_state_part",
       [](T t) {
         auto part = Sized<weft_shard_state_part_t>();
         return weft_shard_state_part(t.bench.param, WEFT_SHARD_STATE_VALUE, &part);
       }},
      {"weft_shard_state_read",
       [](T t) {
         float element = 0;
         return weft_shard_state_read(t.bench.param, WEFT_SHARD_STATE_VALUE, 0, 1, &element);
       }},
      {"weft_shard_state_write",
       [](T t) {
         const float element = 0;
         return weft_shard_state_write(t.bench.param, WEFT_SHARD_STATE_VALUE, 0, 1, &element);
       }},
      {"weft_shard_state_scalars_get",
       [](T t) {
         auto scalars = Sized<weft_shard_state_scalars_t>();
         return weft_shard_state_scalars_get(t.bench.ready, &scalars);
       }},
      {"weft_shard_state_scalars_set",
       [](T t) {
         const auto scalars = Sized<weft_shard_state_scalars_t>();
         return weft_shard_state_scalars_set(t.bench.ready, &scalars);
       }},
      {"weft_shard_state_written",
       [](T t) {
         return weft_shard_state_written(t.bench.ready, WEFT_SHARD_STATE_ALL, nullptr);
       }},
      {"weft_checkpoint_create",
       [](T t) {
         auto config = Sized<weft_checkpoint_config_t>();
         config.directory = "nowhere";
         return weft_checkpoint_create(t.bench.solo, &config, &t.bench.out.checkpoint);
       }},
      {"weft_checkpoint_destroy",
       [](T t) {
         return weft_checkpoint_destroy(t.bench.checkpoint);
       }},
      {"weft_checkpoint_add_context",
       [](T t) {
         return weft_checkpoint_add_context(t.bench.checkpoint, nullptr, t.bench.ready);
       }},
      {"weft_checkpoint_add_tensor",
       [](T t) {
         auto tensor = Sized<weft_checkpoint_tensor_t>();
         return weft_checkpoint_add_tensor(t.bench.checkpoint, &tensor);
       }},
      {"weft_checkpoint_add_value",
       [](T t) {
         auto value = Sized<weft_checkpoint_value_t>();
         return weft_checkpoint_add_value(t.bench.checkpoint, &value);
       }},
      {"weft_checkpoint_save",
       [](T t) {
         const auto config = Sized<weft_checkpoint_save_config_t>();
         return weft_checkpoint_save(t.bench.checkpoint, &config);
       }},
      {"weft_checkpoint_test",
       [](T t) {
         return weft_checkpoint_test(t.bench.checkpoint, &t.bench.out.number);
       }},
      {"weft_checkpoint_wait",
       [](T t) {
         return weft_checkpoint_wait(t.bench.checkpoint, 0);
       }},
      {"weft_checkpoint_load",
       [](T t) {
         auto loaded = Sized<weft_checkpoint_loaded_t>();
         return weft_checkpoint_load(t.bench.checkpoint, nullptr, &loaded);
       }},
      {"weft_checkpoint_value_read",
       [](T t) {
         const void* bytes = nullptr;
         size_t count = 0;
         return weft_checkpoint_value_read(t.bench.checkpoint, "value", -1, &bytes, &count);
       }},
      {"weft_shard_context_plan",
       [](T t) {
         auto plan = Sized<weft_shard_plan_t>();
         return weft_shard_context_plan(t.bench.ready, &plan);
       }},
      {"weft_shard_hint_runs",
       [](T t) {
         const weft_shard_run_t run = {t.bench.open_unit, 0};
         return weft_shard_hint_runs(t.bench.open, &run, 1);
       }},
      {"weft_shard_hint_order",
       [](T t) {
         return weft_shard_hint_order(t.bench.open, &t.bench.open_unit, 1);
       }},
      {"weft_shard_unit_within",
       [](T t) {
         return weft_shard_unit_within(t.bench.open_unit, t.bench.open_unit);
       }},
      {"weft_shard_context_finalize",
       [](T t) {
         return weft_shard_context_finalize(t.bench.open, nullptr);
       }},
      {"weft_shard_check_samples",
       [](T t) {
         return weft_shard_check_samples(t.bench.ready, t.data, 1);
       }},
      {"weft_shard_context_report",
       [](T t) {
         auto report = Sized<weft_shard_report_t>();
         return weft_shard_context_report(t.bench.ready, &report, nullptr, 0);
       }},
      {"weft_shard_context_optimizer",
       [](T t) {
         return weft_shard_context_optimizer(t.bench.ready, nullptr);
       }},
      {"weft_shard_loss_scale",
       [](T t) {
         double scale = 0;
         return weft_shard_loss_scale(t.bench.ready, &scale);
       }},
      {"weft_shard_gradient_norm",
       [](T t) {
         auto norm = Sized<weft_shard_norm_t>();
         return weft_shard_gradient_norm(t.bench.ready, nullptr, &norm);
       }},
      {"weft_shard_norm_sum",
       [](T t) {
         auto norm = Sized<weft_shard_norm_t>();
         norm.loss_scale = 1;
         return weft_shard_norm_sum(&norm, t.group, nullptr);
       }},
      {"weft_shard_optimizer_step",
       [](T t) {
         const auto update = Sized<weft_shard_update_t>();
         return weft_shard_optimizer_step(t.bench.ready, &update, nullptr);
       }},
      {"weft_shard_drop_gradients",
       [](T t) {
         return weft_shard_drop_gradients(t.bench.ready, nullptr);
       }},
      {"weft_shard_step_begin",
       [](T t) {
         return StepBegin(t.bench.ready, WEFT_SHARD_TRAIN, 0);
       }},
      {"weft_shard_join",
       [](T t) {
         return weft_shard_join(t.bench.ready, nullptr, nullptr);
       }},
      {"weft_shard_microbatch_begin",
       [](T t) {
         return MicrobatchBegin(t.bench.ready, 0, 1);
       }},
      {"weft_shard_pre_forward",
       [](T t) {
         return weft_shard_pre_forward(t.bench.unit, nullptr);
       }},
      {"weft_shard_post_forward",
       [](T t) {
         return weft_shard_post_forward(t.bench.unit, nullptr);
       }},
      {"weft_shard_pre_backward",
       [](T t) {
         return weft_shard_pre_backward(t.bench.unit, nullptr);
       }},
      {"weft_shard_grad_ready",
       [](T t) {
         return weft_shard_grad_ready(t.bench.param, nullptr, nullptr);
       }},
      {"weft_shard_post_backward",
       [](T t) {
         return weft_shard_post_backward(t.bench.unit, nullptr);
       }},
      {"weft_shard_unshard_start",
       [](T t) {
         return weft_shard_unshard_start(t.bench.unit, nullptr);
       }},
      {"weft_shard_unshard_wait",
       [](T t) {
         return weft_shard_unshard_wait(t.bench.unit, nullptr);
       }},
      {"weft_shard_reshard",
       [](T t) {
         return weft_shard_reshard(t.bench.unit, nullptr);
       }},
      {"weft_shard_reduce_wait",
       [](T t) {
         return weft_shard_reduce_wait(t.bench.unit, nullptr);
       }},
      {"weft_shard_microbatch_end",
       [](T t) {
         return weft_shard_microbatch_end(t.bench.ready, nullptr);
       }},
      {"weft_shard_finish",
       [](T t) {
         return weft_shard_finish(t.bench.ready, nullptr, nullptr);
       }},
      {"weft_shard_step_end",
       [](T t) {
         return weft_shard_step_end(t.bench.ready);
       }},
      {"weft_shard_abort_step",
       [](T t) {
         return weft_shard_abort_step(t.bench.ready, "by a child");
       }},
  };
  calls->insert(calls->end(), std::begin(shard_calls), std::end(shard_calls));
}

void AddXlaCalls(std::vector<NamedCall>* calls) {
  calls->push_back({"weft_xla_group_number", [](Things& t) {
                      int64_t number = 0;
                      return weft_xla_group_number(t.group, &number);
                    }});
  for (const NamedXlaHandler& handler : kXlaHandlers) {
    calls->push_back({handler.function, [handler](Things& t) {
                        XlaFrame frame;
                        FillXlaFrame(handler, t.xla_group, t.data, t.data + 9, &frame);
                        return frame.RunForResult(handler.handler);
                      }});
  }
}

std::vector<NamedCall> AllCalls() {
  std::vector<NamedCall> calls = GroupCalls();
  AddOperations(&calls);
  AddShardCalls(&calls);
  AddXlaCalls(&calls);
  return calls;
}

// In the child: how many calls answered anything else.
int CountOtherAnswers(Things& things, const std::vector<NamedCall>& calls) {
  int others = 0;
  for (const NamedCall& call : calls) {
    const weft_result_t result = call.call(things);
    if (result == WEFT_FORKED) continue;
    ++others;
    fprintf(stderr, "%s in a forked child: %s\n", call.function, weft_result_name(result));
  }
  return others;
}

#ifdef WEFT_SANITIZE
// True if all threads of this process but one sleep.
bool OthersSleep() {
  int awake = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(") ");
    awake += name_end != std::string::npos && stat[name_end + 2] != 'S' ? 1 : 0;
  }
  return awake <= 1;
}

// The allocators of sanitizers are not made for forks: a lock that another thread holds meanwhile is never released in the
// child. So the others must have nothing to do.
void AwaitQuiet() {
  constexpr int kQuietLooks = 5;
  for (int look = 0, quiet = 0; look < 2000 && quiet < kQuietLooks; ++look) {
    quiet = OthersSleep() ? quiet + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
#else
void AwaitQuiet() {}
#endif

// Runs `body` in a child made by `make`, which has kChildSeconds; expects 0 from it.
void InABoundedChild(const std::function<pid_t()>& make, const std::function<int()>& body,
                     bool exits = false) {
  AwaitQuiet();
  const pid_t child = make();
  if (child == 0) {
    alarm(kChildSeconds);
    const int result = body();
    exits ? exit(result) : _exit(result);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class ForkedChild : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(weft_mem_alloc(4096, 0, &things_.block), WEFT_SUCCESS) << weft_last_error();
    things_.pages = aligned_alloc(4096, 4096);
    ASSERT_EQ(weft_mem_register(things_.pages, 4096, 0), WEFT_SUCCESS) << weft_last_error();
    ASSERT_EQ(weft_xla_group_number(things_.group, &things_.xla_group), WEFT_SUCCESS);
    sum_ = 1;
    ASSERT_EQ(weft_all_reduce(&sum_, &sum_, 1, WEFT_INT32, WEFT_SUM, things_.group, nullptr,
                              &things_.work),
              WEFT_SUCCESS)
        << weft_last_error();
  }

  // The operation that was under way ends well, and all goes on.
  void TearDown() override {
    int other = 2;
    EXPECT_EQ(weft_work_error(things_.work), WEFT_IN_PROGRESS) << "ended by the child";
    EXPECT_EQ(weft_all_reduce(&other, &other, 1, WEFT_INT32, WEFT_SUM, things_.bench.pair[1],
                              nullptr, nullptr),
              WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_work_wait(things_.work, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(sum_, 3);
    EXPECT_EQ(other, 3);
    EXPECT_EQ(weft_work_free(things_.work), WEFT_SUCCESS);
    things_.bench.ExpectGroupsWork();
    EXPECT_EQ(weft_mem_deregister(things_.pages), WEFT_SUCCESS) << weft_last_error();
    free(things_.pages);
    EXPECT_EQ(weft_mem_free(things_.block), WEFT_SUCCESS);
  }

  Things things_;
  const std::vector<NamedCall> calls_ = AllCalls();
  int sum_ = 0;
};

TEST_F(ForkedChild, TheTableHasEveryFunction) {
  std::set<std::string> listed = kNotOfTheParent;
  for (const NamedCall& call : calls_) {
    EXPECT_EQ(kNotOfTheParent.count(call.function), 0u) << call.function;
    listed.insert(call.function);
  }
  EXPECT_EQ(listed, DeclaredFunctions()) << "add the function to one of the two lists";
}

TEST_F(ForkedChild, IsToldByEveryCall) {
  InABoundedChild(fork, [this] {
    const int others = CountOtherAnswers(things_, calls_);
    return others + (std::string(weft_last_error()).find("parent") != std::string::npos ? 0 : 1);
  });
}

// With calls noted by the parent, and by itself.
TEST_F(ForkedChild, IsToldInABatch) {
  float x = 1;
  ASSERT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  ASSERT_EQ(
      weft_all_reduce(&x, &x, 1, WEFT_FLOAT32, WEFT_SUM, things_.bench.solo, nullptr, nullptr),
      WEFT_SUCCESS);
  InABoundedChild(fork, [this] {
    const int others = CountOtherAnswers(things_, calls_);
    return others + (weft_batch_end() == WEFT_FORKED ? 0 : 1);
  });
  EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
}

// Another thread of the parent is within a blocking call, which no thread of the child will end.
TEST_F(ForkedChild, IsToldAtOnceWhileTheParentIsInACall) {
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, nullptr, groups), WEFT_SUCCESS) << weft_last_error();
  std::jthread blocked([&] { EXPECT_EQ(weft_barrier(groups[0], nullptr, nullptr), WEFT_SUCCESS); });
  const auto arrived = [&] {
    auto stats = Sized<weft_group_stats_t>();
    EXPECT_EQ(weft_group_stats(groups[0], &stats), WEFT_SUCCESS);
    return stats.pending > 0;
  };
  while (!arrived())
    std::this_thread::yield();
  const weft_group_t mine = std::exchange(things_.group, groups[0]);
  InABoundedChild(fork, [this] { return CountOtherAnswers(things_, calls_); });
  things_.group = mine;
  EXPECT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  blocked.join();
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

// Destructors and functions registered for exit run in the child too.
TEST_F(ForkedChild, ExitsWithoutHarm) {
  InABoundedChild(
      fork,
      [this] {
        static Group group;
        group = Group(things_.group);
        static Work work;
        work = Work(things_.work);
        return 0;
      },
      true);
}

#ifndef WEFT_SANITIZE
// Made by the kernel's call, so that no handler of pthread_atfork runs.
TEST_F(ForkedChild, IsToldHoweverItWasMade) {
  InABoundedChild([] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); },
                  [this] { return CountOtherAnswers(things_, calls_); });
}
#endif

// What runs in the child afterwards is the rest of the parent's call. If the progress thread runs the callback there is
// none: that thread is all that the child has.
TEST_F(ForkedChild, MayComeBackFromACallback) {
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, nullptr, groups), WEFT_SUCCESS) << weft_last_error();
  static pid_t child;
  child = -1;
  weft_work_t first = nullptr;
  weft_work_t second = nullptr;
  ASSERT_EQ(weft_barrier(groups[0], nullptr, &first), WEFT_SUCCESS);
  ASSERT_EQ(weft_barrier(groups[0], nullptr, &second), WEFT_SUCCESS);
  static thread_local bool waits = false;
  const auto forks = [](weft_result_t, void*) {
    child = fork();
    if (child != 0) return;
    alarm(kChildSeconds);
    if (!waits) _exit(0);
  };
  const pid_t parent = getpid();
  ASSERT_EQ(weft_work_on_complete(first, forks, nullptr), WEFT_SUCCESS);
  std::thread waiter([&] {
    waits = true;
    const weft_result_t result = weft_work_wait(second, 0);
    if (getpid() != parent) _exit(result == WEFT_FORKED ? 0 : 1);
    EXPECT_EQ(result, WEFT_SUCCESS) << weft_last_error();
  });
  EXPECT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS);
  while (weft_work_error(first) == WEFT_IN_PROGRESS)
    std::this_thread::yield();
  EXPECT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS);
  waiter.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (weft_work_t work : {first, second})
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test
