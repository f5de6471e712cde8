// The C interface of include/weft/checkpoint.h over shard/checkpoint.
#include "weft/checkpoint.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/callback_reason.h"
#include "base/files.h"
#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "bindings/c/guard.h"
#include "bindings/c/handle_pool.h"
#include "bindings/c/handles.h"
#include "bindings/c/name_map.h"
#include "bindings/c/shard_handles.h"
#include "bindings/c/struct_size.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/limits.h"

namespace calls = weft::shard_calls;
using weft::Guarded;
using weft::StrCat;

struct weft_checkpoint : weft::MarkedHandle<weft::ShardMark::kCheckpoint> {
  weft::Origin origin;
  std::unique_ptr<weft::Checkpoint> checkpoint;
  std::vector<weft_shard_context_t> contexts;
  std::string loaded_path;
  weft::LeftTensors left;  // of the last load, and pointers to these names
  std::vector<const char*> unused;
  std::vector<const char*> kept;
  std::string value;  // that was read last
};

namespace {

constexpr int64_t kDefaultTimeoutNs = 600'000'000'000;
constexpr size_t kConfigBytesMax = 16 << 20;

absl::Status CheckHandle(const char* call, weft_checkpoint_t checkpoint) {
  WEFT_RETURN_IF_ERROR(
      calls::CheckHandle(call, checkpoint, weft::ShardMark::kCheckpoint, "checkpoint"));
  return calls::CheckOrigin(call, checkpoint->origin, "checkpoint");
}

// For whoever is about to read or write all that was added.
absl::Status CheckContexts(const char* call, const weft_checkpoint& checkpoint) {
  for (size_t i = 0; i < checkpoint.contexts.size(); ++i) {
    if (checkpoint.contexts[i]->mark == weft::ShardMark::kContext) continue;
    return weft::CallError(WEFT_BAD_STATE, call,
                           StrCat("context ", i,
                                  " of those that were added was destroyed; destroy the checkpoint "
                                  "too, and make one with contexts that live"));
  }
  return absl::OkStatus();
}

// Of what is given with a name, and must be given; what a name may be Checkpoint says.
template <typename T>
absl::StatusOr<T> ReadNamed(const char* call, const T* given, const char* what) {
  if (given == nullptr) return calls::Invalid(call, StrCat(what, " is NULL; pass one"));
  T copy{};
  WEFT_RETURN_IF_ERROR(weft::ReadConfig(call, given, &copy));
  if (copy.name == nullptr)
    return calls::Invalid(call, StrCat("name is NULL; give the ", what, " a name"));
  return copy;
}

absl::StatusOr<weft::CheckpointOptions> ReadOptions(const char* call,
                                                    const weft_checkpoint_config_t* config) {
  weft_checkpoint_config_t copy{};
  WEFT_RETURN_IF_ERROR(weft::ReadConfig(call, config, &copy));
  if (copy.directory == nullptr || copy.directory[0] == '\0')
    return calls::Invalid(call, "directory is NULL or empty; say where checkpoints are");
  if (copy.keep_last < 0 || copy.keep_every < 0) {
    return calls::Invalid(call, StrCat("keep_last is ", copy.keep_last, " and keep_every ",
                                       copy.keep_every, "; use 0 or positive numbers"));
  }
  if (copy.timeout_ns < 0) {
    return calls::Invalid(
        call, StrCat("timeout_ns is ", copy.timeout_ns, "; use 0 for 600 s or a positive number"));
  }
  if (copy.not_loaded != WEFT_CHECKPOINT_WARN && copy.not_loaded != WEFT_CHECKPOINT_REFUSE) {
    return calls::Invalid(call, StrCat("not_loaded is ", calls::NumberOf(copy.not_loaded),
                                       "; use WEFT_CHECKPOINT_WARN or WEFT_CHECKPOINT_REFUSE"));
  }
  weft::CheckpointOptions options{
      .directory = copy.directory,
      .retention = {.last = copy.keep_last, .every = copy.keep_every},
      .timeout_ns = copy.timeout_ns == 0 ? kDefaultTimeoutNs : copy.timeout_ns,
      .config = copy.config == nullptr ? "" : copy.config,
      .refuse_not_loaded = copy.not_loaded == WEFT_CHECKPOINT_REFUSE};
  if (options.config.size() <= kConfigBytesMax) return options;
  return calls::Invalid(
      call, StrCat("config has ", options.config.size(), " bytes; use up to ", kConfigBytesMax));
}

absl::StatusOr<weft::SavedTensor> ReadTensor(const char* call,
                                             const weft_checkpoint_tensor_t& given) {
  if (given.ndim < 0 || given.ndim > WEFT_SHARD_DIMS_MAX ||
      (given.ndim > 0 && given.shape == nullptr)) {
    return calls::Invalid(call, StrCat("tensor ", given.name, " has ", given.ndim,
                                       " dimensions, or no shape; use 0 to ", WEFT_SHARD_DIMS_MAX));
  }
  if (!weft::IsDtype(given.dtype)) {
    return calls::Invalid(
        call, StrCat("dtype of tensor ", given.name, " is ", calls::NumberOf(given.dtype),
                     "; use a value of weft_dtype_t"));
  }
  weft::SavedTensor tensor{.name = given.name, .dtype = given.dtype};
  size_t bytes = weft::DtypeSize(given.dtype);
  for (int i = 0; i < given.ndim; ++i) {
    const int64_t dimension = given.shape[i];
    if (dimension < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(dimension), &bytes) ||
        bytes > std::numeric_limits<size_t>::max() / 2) {
      return calls::Invalid(call, StrCat("dimension ", i, " of tensor ", given.name, " is ",
                                         dimension, "; the whole must fit into memory"));
    }
    tensor.shape.push_back(dimension);
  }
  return tensor;
}

absl::StatusOr<weft::MatchRules> ReadRules(const char* call,
                                           const weft_checkpoint_load_config_t& config) {
  weft::MatchRules rules{.partial = (config.flags & WEFT_CHECKPOINT_PARTIAL) != 0,
                         .convert = (config.flags & WEFT_CHECKPOINT_CONVERT) != 0};
  const bool values = (config.flags & WEFT_CHECKPOINT_VALUES_ONLY) != 0;
  if ((rules.partial || rules.convert) && !values) {
    return calls::Invalid(call,
                          "flags has PARTIAL or CONVERT without VALUES_ONLY; optimizer state is "
                          "loaded as a whole, or not at all");
  }
  WEFT_ASSIGN_OR_RETURN(
      rules.names,
      weft::ReadNameMap(call, {"names", config.names}, {"saved_names", config.saved_names},
                        config.name_count,
                        values ? nullptr
                               : "without VALUES_ONLY; optimizer state is loaded as a whole, or "
                                 "not at all"));
  return rules;
}

// What a load has found, which stays until the next one.
weft_checkpoint_loaded_t Answer(weft::Checkpoint::Loaded made, weft_checkpoint* checkpoint) {
  checkpoint->loaded_path = std::move(made.path);
  checkpoint->left = std::move(made.left);
  const auto point = [](const std::vector<std::string>& names, std::vector<const char*>* pointers) {
    pointers->clear();
    for (const std::string& name : names)
      pointers->push_back(name.c_str());
  };
  point(checkpoint->left.unused, &checkpoint->unused);
  point(checkpoint->left.kept, &checkpoint->kept);
  weft_checkpoint_loaded_t answer{};
  answer.struct_size = sizeof(answer);
  answer.found = 1;
  answer.ranks = made.ranks;
  answer.step = made.step;
  answer.path = checkpoint->loaded_path.c_str();
  answer.unused = checkpoint->unused.data();
  answer.unused_count = checkpoint->unused.size();
  answer.kept = checkpoint->kept.data();
  answer.kept_count = checkpoint->kept.size();
  return answer;
}

// What a callback of the program's own has answered.
absl::Status CallbackError(const char* what, const char* name, const weft::CallbackAnswer& answer) {
  if (answer.result == WEFT_SUCCESS) return absl::OkStatus();
  return weft::MakeError(WEFT_INVALID_ARGUMENT,
                         StrCat("the function that ", what, " value ", name, " answered ",
                                weft_result_name(answer.result), weft::BehindColon(answer)));
}

weft::ValueCalls MakeCalls(const weft_checkpoint_value_t& value) {
  weft::ValueCalls made{.name = value.name,
                        .per_rank = (value.flags & WEFT_CHECKPOINT_PER_RANK) != 0};
  made.save = [value, name = made.name]() -> absl::StatusOr<std::string> {
    const void* bytes = nullptr;
    size_t count = 0;
    WEFT_RETURN_IF_ERROR(CallbackError("saves", name.c_str(), weft::AskCallback([&] {
                                         return value.save(value.user, &bytes, &count);
                                       })));
    if (count > weft::kCheckpointValueBytesMax || (bytes == nullptr && count > 0)) {
      return weft::MakeError(WEFT_INVALID_ARGUMENT, StrCat("value ", name, " has ", count,
                                                           " bytes, or is NULL; use up to ",
                                                           weft::kCheckpointValueBytesMax));
    }
    return std::string(static_cast<const char*>(bytes), count);
  };
  made.load = [value, name = made.name](const std::string* bytes) {
    const void* const data = bytes == nullptr ? nullptr : bytes->data();
    return CallbackError("loads", name.c_str(), weft::AskCallback([&] {
                           return value.load(value.user, data,
                                             bytes == nullptr ? 0 : bytes->size());
                         }));
  };
  return made;
}

}  // namespace

extern "C" {

weft_result_t weft_checkpoint_create(weft_group_t group, const weft_checkpoint_config_t* config,
                                     weft_checkpoint_t* checkpoint) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_create";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, checkpoint, "checkpoint"));
    if (group == nullptr) return calls::Invalid(kCall, "group is NULL; pass a weft_group_t");
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    if (config == nullptr)
      return calls::Invalid(kCall, "config is NULL; say at least where checkpoints are");
    WEFT_ASSIGN_OR_RETURN(weft::CheckpointOptions options, ReadOptions(kCall, config));
    absl::StatusOr<std::unique_ptr<weft::Checkpoint>> made =
        weft::Checkpoint::Create(group->group.shared(), weft::SystemFiles(), std::move(options));
    if (!made.ok()) return weft::Annotate(made.status(), "checkpoint_create: ");
    weft_checkpoint* const handle = weft::HandlePool<weft_checkpoint>::Get().Make();
    handle->checkpoint = *std::move(made);
    *checkpoint = handle;
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_destroy(weft_checkpoint_t checkpoint) {
  return Guarded([&]() -> absl::Status {
    if (checkpoint == nullptr) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(CheckHandle("checkpoint_destroy", checkpoint));
    weft::HandlePool<weft_checkpoint>::Get().Retire(checkpoint);
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_add_context(weft_checkpoint_t checkpoint, const char* name,
                                          weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_add_context";
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(weft::Annotate(
        checkpoint->checkpoint->AddContext(name == nullptr ? "" : name, *context->context),
        "checkpoint_add_context: "));
    checkpoint->contexts.push_back(context);
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_add_tensor(weft_checkpoint_t checkpoint,
                                         const weft_checkpoint_tensor_t* tensor) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_add_tensor";
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    WEFT_ASSIGN_OR_RETURN(const weft_checkpoint_tensor_t given, ReadNamed(kCall, tensor, "tensor"));
    WEFT_ASSIGN_OR_RETURN(weft::SavedTensor read, ReadTensor(kCall, given));
    if (given.data == nullptr && given.count > 0)
      return calls::Invalid(kCall, StrCat("data of tensor ", given.name, " is NULL"));
    return weft::Annotate(
        checkpoint->checkpoint->AddTensor(std::move(read), given.begin, given.count, given.data),
        "checkpoint_add_tensor: ");
  });
}

weft_result_t weft_checkpoint_add_value(weft_checkpoint_t checkpoint,
                                        const weft_checkpoint_value_t* value) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_add_value";
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    WEFT_ASSIGN_OR_RETURN(const weft_checkpoint_value_t given, ReadNamed(kCall, value, "value"));
    if (given.save == nullptr || given.load == nullptr)
      return calls::Invalid(kCall, StrCat("save or load of value ", given.name, " is NULL"));
    if ((given.flags & ~WEFT_CHECKPOINT_PER_RANK) != 0)
      return calls::Invalid(kCall, StrCat("flags has unknown bits: ", given.flags));
    return weft::Annotate(checkpoint->checkpoint->AddValue(MakeCalls(given)),
                          "checkpoint_add_value: ");
  });
}

weft_result_t weft_checkpoint_save(weft_checkpoint_t checkpoint,
                                   const weft_checkpoint_save_config_t* config) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_save";
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    if (config == nullptr) return calls::Invalid(kCall, "config is NULL; say which step it is");
    weft_checkpoint_save_config_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &copy));
    if (copy.step < 0) {
      return calls::Invalid(kCall, StrCat("step is ", copy.step, "; use 0 or a positive number"));
    }
    if (copy.in_place != 0 && copy.background == 0) {
      return calls::Invalid(kCall, "in_place is set without background; set both, or neither");
    }
    WEFT_RETURN_IF_ERROR(CheckContexts(kCall, *checkpoint));
    using How = weft::Checkpoint::How;
    const How how = copy.in_place != 0     ? How::kInPlace
                    : copy.background != 0 ? How::kBackground
                                           : How::kForeground;
    return weft::Annotate(checkpoint->checkpoint->Save(copy.step, how), "checkpoint_save: ");
  });
}

weft_result_t weft_checkpoint_test(weft_checkpoint_t checkpoint, int* ended) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_test";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, ended, "ended"));
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    const absl::StatusOr<bool> tested = checkpoint->checkpoint->Test();
    if (!tested.ok()) return weft::Annotate(tested.status(), "checkpoint_test: ");
    *ended = *tested ? 1 : 0;
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_wait(weft_checkpoint_t checkpoint, int64_t timeout_ns) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_wait";
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    if (timeout_ns < 0) {
      return calls::Invalid(kCall, StrCat("timeout_ns is ", timeout_ns,
                                          "; use 0 for the save's own or a positive number"));
    }
    const int64_t deadline_ns = timeout_ns == 0 ? std::numeric_limits<int64_t>::max()
                                                : weft::Later(weft::MonotonicNs(), timeout_ns);
    const absl::StatusOr<bool> ended = checkpoint->checkpoint->WaitUntil(deadline_ns);
    if (!ended.ok()) return weft::Annotate(ended.status(), "checkpoint_wait: ");
    if (*ended) return absl::OkStatus();
    return weft::MakeError(
        WEFT_TIMEOUT, {.operation = kCall},
        StrCat(kCall, ": the save is still under way after ", timeout_ns / 1'000'000, " ms"));
  });
}

weft_result_t weft_checkpoint_load(weft_checkpoint_t checkpoint,
                                   const weft_checkpoint_load_config_t* config,
                                   weft_checkpoint_loaded_t* loaded) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_load";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, loaded, "loaded"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, loaded));
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    weft_checkpoint_load_config_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &copy));
    constexpr uint32_t kKnown = WEFT_CHECKPOINT_VALUES_ONLY | WEFT_CHECKPOINT_STEP |
                                WEFT_CHECKPOINT_WHOLE | WEFT_CHECKPOINT_PARTIAL |
                                WEFT_CHECKPOINT_CONVERT;
    if ((copy.flags & ~kKnown) != 0)
      return calls::Invalid(kCall, StrCat("flags has unknown bits: ", copy.flags));
    const bool step = (copy.flags & WEFT_CHECKPOINT_STEP) != 0;
    if (copy.step < 0 || (copy.step > 0 && !step)) {
      return calls::Invalid(
          kCall,
          StrCat("step is ", copy.step, "; use 0 or a positive number, with WEFT_CHECKPOINT_STEP"));
    }
    if (copy.source != nullptr && copy.source[0] == '\0')
      return calls::Invalid(kCall, "source is empty; pass a path, or NULL");
    weft::Checkpoint::LoadFrom from{.path = copy.source == nullptr ? "" : copy.source};
    WEFT_ASSIGN_OR_RETURN(from.rules, ReadRules(kCall, copy));
    WEFT_RETURN_IF_ERROR(CheckContexts(kCall, *checkpoint));
    const bool values = (copy.flags & WEFT_CHECKPOINT_VALUES_ONLY) != 0;
    absl::StatusOr<weft::Checkpoint::Loaded> made = checkpoint->checkpoint->Load(
        step ? copy.step : -1, values ? WEFT_SHARD_STATE_VALUES : WEFT_SHARD_STATE_ALL,
        (copy.flags & WEFT_CHECKPOINT_WHOLE) != 0, from);
    if (!made.ok() && !absl::IsNotFound(made.status()))
      return weft::Annotate(made.status(), "checkpoint_load: ");
    weft_checkpoint_loaded_t answer{};
    answer.struct_size = sizeof(answer);
    if (made.ok()) answer = Answer(*std::move(made), checkpoint);
    weft::WriteAnswer(answer, loaded);
    return absl::OkStatus();
  });
}

weft_result_t weft_checkpoint_value_read(weft_checkpoint_t checkpoint, const char* name, int rank,
                                         const void** bytes, size_t* count) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "checkpoint_value_read";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, bytes, "bytes"));
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, count, "count"));
    WEFT_RETURN_IF_ERROR(CheckHandle(kCall, checkpoint));
    if (name == nullptr) return calls::Invalid(kCall, "name is NULL; say which value it is");
    if (rank < -1)
      return calls::Invalid(kCall, StrCat("rank is ", rank, "; use -1 for the value of all ranks"));
    absl::StatusOr<std::optional<std::string>> read =
        checkpoint->checkpoint->LoadedValue(name, rank);
    if (!read.ok()) return weft::Annotate(read.status(), "checkpoint_value_read: ");
    const bool found = read->has_value();
    checkpoint->value = std::move(*read).value_or("");
    *bytes = found ? checkpoint->value.data() : nullptr;
    *count = checkpoint->value.size();
    return absl::OkStatus();
  });
}

}  // extern "C"
