// The calls of checkpoint.h with one wrong argument each.
#include <string>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/checkpoint_calls.h"

namespace weft::test {
namespace {

constexpr char kCreate[] = "weft_checkpoint_create";
constexpr char kDestroy[] = "weft_checkpoint_destroy";
constexpr char kAddContext[] = "weft_checkpoint_add_context";
constexpr char kAddTensor[] = "weft_checkpoint_add_tensor";
constexpr char kAddValue[] = "weft_checkpoint_add_value";
constexpr char kSave[] = "weft_checkpoint_save";
constexpr char kTest[] = "weft_checkpoint_test";
constexpr char kWait[] = "weft_checkpoint_wait";
constexpr char kLoad[] = "weft_checkpoint_load";
constexpr char kValueRead[] = "weft_checkpoint_value_read";

weft_checkpoint_config_t Config() {
  weft_checkpoint_config_t config = {};
  config.struct_size = sizeof(config);
  config.directory = "nowhere";
  return config;
}

weft_checkpoint_tensor_t Tensor(Bench& b) {
  static const int64_t shape[] = {4, 5};
  weft_checkpoint_tensor_t tensor = {};
  tensor.struct_size = sizeof(tensor);
  tensor.name = "x";
  tensor.shape = shape;
  tensor.ndim = 2;
  tensor.dtype = WEFT_FLOAT32;
  tensor.count = 20;
  tensor.data = b.out.data;
  return tensor;
}

weft_checkpoint_value_t Value() {
  weft_checkpoint_value_t value = {};
  value.struct_size = sizeof(value);
  value.name = "x";
  value.save = [](void*, const void**, size_t* count) {
    *count = 0;
    return WEFT_SUCCESS;
  };
  value.load = [](void*, const void*, size_t) {
    return WEFT_SUCCESS;
  };
  return value;
}

// A load with that change of its config.
weft_result_t LoadAs(Bench& b, void (*change)(weft_checkpoint_load_config_t*)) {
  weft_checkpoint_load_config_t config = {};
  config.struct_size = sizeof(config);
  change(&config);
  weft_checkpoint_loaded_t loaded = {};
  loaded.struct_size = sizeof(loaded);
  return weft_checkpoint_load(b.checkpoint, &config, &loaded);
}

void AddCreateFaults(std::vector<BadCall>* calls) {
  AddConfigFaults<weft_checkpoint_config_t>(
      kCreate, calls, [](Bench& b, const weft_checkpoint_config_t* config) {
        return weft_checkpoint_create(b.solo, config, &b.out.checkpoint);
      });
  const auto add = [calls](const char* fault, const char* needle,
                           void (*change)(weft_checkpoint_config_t*)) {
    calls->push_back({kCreate, fault, WEFT_INVALID_ARGUMENT, needle, [change](Bench& b) {
                        weft_checkpoint_config_t config = Config();
                        change(&config);
                        return weft_checkpoint_create(b.solo, &config, &b.out.checkpoint);
                      }});
  };
  add("directory_NULL", "directory is NULL", [](auto* config) { config->directory = nullptr; });
  add("directory_empty", "directory is NULL or empty",
      [](auto* config) { config->directory = ""; });
  add("keep_last_below_0", "keep_last is -1", [](auto* config) { config->keep_last = -1; });
  add("keep_every_below_0", "keep_every -1", [](auto* config) { config->keep_every = -1; });
  add("timeout_below_0", "timeout_ns is -1", [](auto* config) { config->timeout_ns = -1; });
  add("not_loaded_unknown", "not_loaded is 2",
      [](auto* config) { config->not_loaded = static_cast<weft_checkpoint_not_loaded_t>(2); });
  calls->push_back({kCreate, "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL", [](Bench& b) {
                      const weft_checkpoint_config_t config = Config();
                      return weft_checkpoint_create(nullptr, &config, &b.out.checkpoint);
                    }});
  calls->push_back({kCreate, "config_NULL", WEFT_INVALID_ARGUMENT, "config is NULL", [](Bench& b) {
                      return weft_checkpoint_create(b.solo, nullptr, &b.out.checkpoint);
                    }});
  calls->push_back(
      {kCreate, "checkpoint_NULL", WEFT_INVALID_ARGUMENT, "checkpoint is NULL", [](Bench& b) {
         const weft_checkpoint_config_t config = Config();
         return weft_checkpoint_create(b.solo, &config, nullptr);
       }});
  calls->push_back(
      {kCreate, "a_directory_that_is_a_file", WEFT_SYSTEM_ERROR, "/dev/null", [](Bench& b) {
         weft_checkpoint_config_t config = Config();
         config.directory = "/dev/null";
         return weft_checkpoint_create(b.solo, &config, &b.out.checkpoint);
       }});
}

void AddAddFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_checkpoint_t>(
      kAddContext, "checkpoint",
      [](Bench& b, weft_checkpoint_t checkpoint) {
        return weft_checkpoint_add_context(checkpoint, nullptr, b.ready);
      },
      calls);
  AddHandleFaults<weft_shard_context_t>(
      kAddContext, "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_checkpoint_add_context(b.checkpoint, nullptr, context);
      },
      calls);
  calls->push_back(
      {kAddContext, "a_context_not_finalized", WEFT_BAD_STATE, "is not finalized", [](Bench& b) {
         return weft_checkpoint_add_context(b.checkpoint, nullptr, b.open);
       }});
  calls->push_back({kAddContext, "name_no_utf8", WEFT_INVALID_ARGUMENT, "no UTF-8", [](Bench& b) {
                      return weft_checkpoint_add_context(b.checkpoint, "caf\xe9", b.ready);
                    }});
  AddHandleFaults<weft_checkpoint_t>(
      kAddTensor, "checkpoint",
      [](Bench& b, weft_checkpoint_t checkpoint) {
        const weft_checkpoint_tensor_t tensor = Tensor(b);
        return weft_checkpoint_add_tensor(checkpoint, &tensor);
      },
      calls);
  AddConfigFaults<weft_checkpoint_tensor_t>(
      kAddTensor, calls, [](Bench& b, const weft_checkpoint_tensor_t* tensor) {
        return weft_checkpoint_add_tensor(b.checkpoint, tensor);
      });
  const auto add_tensor = [calls](const char* fault, const char* needle,
                                  void (*change)(weft_checkpoint_tensor_t*)) {
    calls->push_back({kAddTensor, fault, WEFT_INVALID_ARGUMENT, needle, [change](Bench& b) {
                        weft_checkpoint_tensor_t tensor = Tensor(b);
                        change(&tensor);
                        return weft_checkpoint_add_tensor(b.checkpoint, &tensor);
                      }});
  };
  add_tensor("name_NULL", "name is NULL", [](auto* tensor) { tensor->name = nullptr; });
  add_tensor("name_empty", "name of a tensor is empty", [](auto* tensor) { tensor->name = ""; });
  add_tensor("name_no_utf8", "no UTF-8: \"caf\\xe9\"",
             [](auto* tensor) { tensor->name = "caf\xe9"; });
  add_tensor("name_of_the_metadata", "metadata",
             [](auto* tensor) { tensor->name = "__metadata__"; });
  add_tensor("shape_NULL", "no shape", [](auto* tensor) { tensor->shape = nullptr; });
  add_tensor("ndim_below_0", "-1 dimensions", [](auto* tensor) { tensor->ndim = -1; });
  add_tensor("ndim_33", "33 dimensions", [](auto* tensor) { tensor->ndim = 33; });
  add_tensor("dtype_99", "dtype", [](auto* tensor) { tensor->dtype = Unknown<weft_dtype_t>(99); });
  add_tensor("a_dimension_below_0", "dimension 1 of tensor x is -5", [](auto* tensor) {
    static const int64_t shape[] = {4, -5};
    tensor->shape = shape;
  });
  add_tensor("more_than_memory", "fit into memory", [](auto* tensor) {
    static const int64_t shape[] = {INT64_MAX, INT64_MAX};
    tensor->shape = shape;
  });
  add_tensor("an_end_beyond_the_tensor", "which has 20", [](auto* tensor) { tensor->begin = 1; });
  add_tensor("a_begin_beyond_all", "which has 20", [](auto* tensor) { tensor->begin = SIZE_MAX; });
  add_tensor("data_NULL", "data of tensor x is NULL", [](auto* tensor) { tensor->data = nullptr; });
  AddHandleFaults<weft_checkpoint_t>(
      kAddValue, "checkpoint",
      [](Bench&, weft_checkpoint_t checkpoint) {
        const weft_checkpoint_value_t value = Value();
        return weft_checkpoint_add_value(checkpoint, &value);
      },
      calls);
  AddConfigFaults<weft_checkpoint_value_t>(kAddValue, calls,
                                           [](Bench& b, const weft_checkpoint_value_t* value) {
                                             return weft_checkpoint_add_value(b.checkpoint, value);
                                           });
  const auto add_value = [calls](const char* fault, const char* needle,
                                 void (*change)(weft_checkpoint_value_t*)) {
    calls->push_back({kAddValue, fault, WEFT_INVALID_ARGUMENT, needle, [change](Bench& b) {
                        weft_checkpoint_value_t value = Value();
                        change(&value);
                        return weft_checkpoint_add_value(b.checkpoint, &value);
                      }});
  };
  add_value("name_NULL", "name is NULL", [](auto* value) { value->name = nullptr; });
  add_value("name_empty", "name of a value is empty", [](auto* value) { value->name = ""; });
  add_value("name_no_utf8", "no UTF-8", [](auto* value) { value->name = "\xff"; });
  add_value("save_NULL", "save or load", [](auto* value) { value->save = nullptr; });
  add_value("load_NULL", "save or load", [](auto* value) { value->load = nullptr; });
  add_value("unknown_flags", "flags has unknown bits: 6", [](auto* value) { value->flags = 6; });
}

void AddUseFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_checkpoint_t>(
      kDestroy, "checkpoint",
      [](Bench&, weft_checkpoint_t checkpoint) { return weft_checkpoint_destroy(checkpoint); },
      calls);
  AddHandleFaults<weft_checkpoint_t>(
      kSave, "checkpoint", [](Bench&, weft_checkpoint_t checkpoint) { return Save(checkpoint, 1); },
      calls);
  AddConfigFaults<weft_checkpoint_save_config_t>(
      kSave, calls, [](Bench& b, const weft_checkpoint_save_config_t* config) {
        return weft_checkpoint_save(b.checkpoint, config);
      });
  calls->push_back({kSave, "config_NULL", WEFT_INVALID_ARGUMENT, "config is NULL", [](Bench& b) {
                      return weft_checkpoint_save(b.checkpoint, nullptr);
                    }});
  for (const int64_t step : {int64_t{-1}, INT64_MAX}) {
    calls->push_back({kSave, step < 0 ? "step_below_0" : "step_2_63", WEFT_INVALID_ARGUMENT, "step",
                      [step](Bench& b) {
                        return Save(b.checkpoint, step);
                      }});
  }
  calls->push_back({kSave, "in_place_without_background", WEFT_INVALID_ARGUMENT,
                    "in_place is set without background", [](Bench& b) {
                      return Save(b.checkpoint, 1, /*background=*/false, /*in_place=*/true);
                    }});
  AddHandleFaults<weft_checkpoint_t>(
      kTest, "checkpoint",
      [](Bench& b, weft_checkpoint_t checkpoint) {
        return weft_checkpoint_test(checkpoint, &b.out.number);
      },
      calls);
  calls->push_back({kTest, "ended_NULL", WEFT_INVALID_ARGUMENT, "ended is NULL", [](Bench& b) {
                      return weft_checkpoint_test(b.checkpoint, nullptr);
                    }});
  AddHandleFaults<weft_checkpoint_t>(
      kWait, "checkpoint",
      [](Bench&, weft_checkpoint_t checkpoint) { return weft_checkpoint_wait(checkpoint, 0); },
      calls);
  calls->push_back(
      {kWait, "timeout_below_0", WEFT_INVALID_ARGUMENT, "timeout_ns is -1", [](Bench& b) {
         return weft_checkpoint_wait(b.checkpoint, -1);
       }});
  AddHandleFaults<weft_checkpoint_t>(
      kLoad, "checkpoint", [](Bench&, weft_checkpoint_t checkpoint) { return Load(checkpoint); },
      calls);
  AddConfigFaults<weft_checkpoint_load_config_t>(
      kLoad, calls, [](Bench& b, const weft_checkpoint_load_config_t* config) {
        weft_checkpoint_loaded_t loaded = {};
        loaded.struct_size = sizeof(loaded);
        return weft_checkpoint_load(b.checkpoint, config, &loaded);
      });
  calls->push_back({kLoad, "loaded_NULL", WEFT_INVALID_ARGUMENT, "loaded is NULL", [](Bench& b) {
                      return weft_checkpoint_load(b.checkpoint, nullptr, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{24}, SIZE_MAX}) {
    calls->push_back({kLoad, "answer_struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_checkpoint_loaded_t>(
                            struct_size, [&b](weft_checkpoint_loaded_t* loaded) {
                              return weft_checkpoint_load(b.checkpoint, nullptr, loaded);
                            });
                      }});
  }
  calls->push_back(
      {kLoad, "unknown_flags", WEFT_INVALID_ARGUMENT, "flags has unknown bits: 32", [](Bench& b) {
         return Load(b.checkpoint, 32, 0);
       }});
  for (const uint32_t flag : {WEFT_CHECKPOINT_PARTIAL, WEFT_CHECKPOINT_CONVERT}) {
    calls->push_back({kLoad, "all_state_with_flag_" + std::to_string(flag), WEFT_INVALID_ARGUMENT,
                      "without VALUES_ONLY", [flag](Bench& b) {
                        return Load(b.checkpoint, flag, 0);
                      }});
  }
  calls->push_back(
      {kLoad, "an_empty_source", WEFT_INVALID_ARGUMENT, "source is empty", [](Bench& b) {
         return LoadAs(b, [](weft_checkpoint_load_config_t* config) { config->source = ""; });
       }});
  calls->push_back(
      {kLoad, "names_NULL", WEFT_INVALID_ARGUMENT, "names or saved_names is NULL", [](Bench& b) {
         return LoadAs(b, [](weft_checkpoint_load_config_t* config) { config->name_count = 1; });
       }});
  calls->push_back({kLoad, "a_name_NULL", WEFT_INVALID_ARGUMENT, "names[1] is NULL", [](Bench& b) {
                      static constexpr const char* kNames[] = {"a", nullptr};
                      return LoadAs(b, [](weft_checkpoint_load_config_t* config) {
                        config->names = config->saved_names = kNames;
                        config->flags = WEFT_CHECKPOINT_VALUES_ONLY;
                        config->name_count = 2;
                      });
                    }});
  calls->push_back(
      {kLoad, "a_name_twice", WEFT_INVALID_ARGUMENT, "names has a twice", [](Bench& b) {
         static constexpr const char* kNames[] = {"a", "a"};
         return LoadAs(b, [](weft_checkpoint_load_config_t* config) {
           config->names = config->saved_names = kNames;
           config->name_count = 2;
         });
       }});
  calls->push_back({kLoad, "no_saved_name_with_all_state", WEFT_INVALID_ARGUMENT,
                    "saved_names[0], for a, is NULL", [](Bench& b) {
                      static constexpr const char* kNames[] = {"a"};
                      static constexpr const char* kNone[] = {nullptr};
                      return LoadAs(b, [](weft_checkpoint_load_config_t* config) {
                        config->names = kNames;
                        config->saved_names = kNone;
                        config->name_count = 1;
                      });
                    }});
  AddHandleFaults<weft_checkpoint_t>(
      kValueRead, "checkpoint",
      [](Bench&, weft_checkpoint_t checkpoint) {
        const void* bytes = nullptr;
        size_t count = 0;
        return weft_checkpoint_value_read(checkpoint, "x", -1, &bytes, &count);
      },
      calls);
  const auto add_value_read = [calls](const char* fault, weft_result_t result, const char* needle,
                                      const char* name, int rank, bool bytes, bool count) {
    calls->push_back({kValueRead, fault, result, needle, [=](Bench& b) {
                        const void* found = nullptr;
                        size_t found_count = 0;
                        return weft_checkpoint_value_read(b.checkpoint, name, rank,
                                                          bytes ? &found : nullptr,
                                                          count ? &found_count : nullptr);
                      }});
  };
  add_value_read("name_NULL", WEFT_INVALID_ARGUMENT, "name is NULL", nullptr, -1, true, true);
  add_value_read("rank_below_1", WEFT_INVALID_ARGUMENT, "rank is -2", "x", -2, true, true);
  add_value_read("bytes_NULL", WEFT_INVALID_ARGUMENT, "bytes is NULL", "x", -1, false, true);
  add_value_read("count_NULL", WEFT_INVALID_ARGUMENT, "count is NULL", "x", -1, true, false);
  add_value_read("nothing_loaded", WEFT_BAD_STATE, "no checkpoint was loaded", "x", -1, true, true);
  calls->push_back({kLoad, "step_below_0", WEFT_INVALID_ARGUMENT, "step is -1", [](Bench& b) {
                      return Load(b.checkpoint, WEFT_CHECKPOINT_STEP, -1);
                    }});
  calls->push_back(
      {kLoad, "a_step_without_its_flag", WEFT_INVALID_ARGUMENT, "step is 3", [](Bench& b) {
         return Load(b.checkpoint, 0, 3);
       }});
}

}  // namespace

std::vector<BadCall> BadCheckpointCalls() {
  std::vector<BadCall> calls;
  AddCreateFaults(&calls);
  AddAddFaults(&calls);
  AddUseFaults(&calls);
  return calls;
}

}  // namespace weft::test
