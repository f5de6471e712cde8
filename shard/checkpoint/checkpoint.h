// Checkpoints of a job: what they have, where they are, saving and loading.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Create(group, SystemFiles(), options));
//   WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", context));
//   checkpoint->Load({.kinds = WEFT_SHARD_STATE_ALL}) ...              // collective; NOT_FOUND: a new run
//   for (...) WEFT_RETURN_IF_ERROR(checkpoint->Save(step, Checkpoint::How::kBackground));      // no rank waits for another
//   WEFT_ASSIGN_OR_RETURN(const bool committed, checkpoint->WaitUntil(deadline_ns));
//
// Thread-safety: one thread at a time, that of the contexts' step calls. What may be loaded at one time, a save reads at another: neither
// is legal in the middle of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "comm/group/process_group.h"
#include "shard/checkpoint/caller_tensors.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/context_state.h"
#include "shard/checkpoint/directory_lock.h"
#include "shard/checkpoint/keeper.h"
#include "shard/checkpoint/loader.h"
#include "shard/checkpoint/saver.h"

namespace weft {

struct CheckpointOptions {
  std::string
      directory;  // of all checkpoints; its parent exists. One that is relative is so to the current directory of now
  Retention retention;
  int64_t timeout_ns = 0;  // of a save, and of each collective of a load
  std::string config;      // rank 0 writes it beside each checkpoint
  bool refuse_not_loaded =
      false;  // to push out checkpoints of which none was loaded; else a warning
};

// Bytes of the program's own, under a name.
struct ValueCalls {
  std::string name;
  bool per_rank = false;  // each rank has its own; else rank 0's is everybody's
  std::function<absl::StatusOr<std::string>()> save;
  // nullptr: the checkpoint has none of that name, or of this rank.
  std::function<absl::Status(const std::string* bytes)> load;
};

class Checkpoint {
 public:
  // Collective: ranks agree on what their files are known by. `files` outlives it.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Create(std::shared_ptr<ProcessGroup> group,
                                                            Files& files,
                                                            CheckpointOptions options);
  // Waits for a save that is under way; as all waits of saves, not for other ranks if the group has ended.
  ~Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // `context` outlives it; finalized. INVALID_ARGUMENT for a name that is taken, and, as the next two, for one that is no name in a checkpoint.
  absl::Status AddContext(std::string_view name, Context& context);
  absl::Status AddValue(ValueCalls calls);
  // As CallerTensors::Add; INVALID_ARGUMENT for an interval that the shape has not.
  absl::Status AddTensor(SavedTensor tensor, size_t begin, size_t count, void* data);

  enum class How {
    kForeground,  // it returns when the checkpoint is committed
    kBackground,  // as soon as the bytes are copied
    kInPlace,  // as soon as params are copied: the next update waits until optimizer state is written
  };

  // Steps must grow from save to save. The first save is collective: ranks agree on who saves in the directory, and with which number
  // (SaveGround); none of its waits is for the others afterwards. State that is offloaded is never copied. An earlier save that has failed in the background, and that nobody has asked about, is told of by a warning.
  absl::Status Save(int64_t step, How how);

  // As Saver's, of the last save.
  absl::StatusOr<bool> Test();
  absl::StatusOr<bool> WaitUntil(int64_t deadline_ns);

  struct Loaded {
    int64_t step = 0;
    std::string path;
    int ranks = 0;  // that it was saved by
    LeftTensors left;
  };

  // What is loaded that this checkpoint has not saved, or not so.
  struct LoadFrom {
    std::string
        path;  // of other checkpoints, of one, or of others' files; "": the directory of this one's
    MatchRules rules;
  };

  // `step` -1: the latest. `whole`: no tensor of it may be left, also if `kinds` are values alone. Collective; see LoadCheckpoint().
  absl::StatusOr<Loaded> Load(int64_t step, uint32_t kinds, bool whole = false,
                              const LoadFrom& from = {});

  // A value of the checkpoint that was loaded last, of any of the ranks that saved it; -1: of all. Nothing if it has none. BAD_STATE if none was loaded; SYSTEM_ERROR
  // if it has been removed since.
  absl::StatusOr<std::optional<std::string>> LoadedValue(std::string_view name, int rank) const;

 private:
  Checkpoint(std::shared_ptr<ProcessGroup> group, Files& files, CheckpointOptions options)
      : group_(std::move(group)),
        files_(files),
        options_(std::move(options)),
        saver_(files, [group = group_.get()] { return group->error(); }) {}

  absl::Status AgreeOnJob();
  absl::Status AgreeOnGround();
  absl::StatusOr<Snapshot> Take(bool in_place);
  std::vector<NamedSource> Sources();
  absl::Status LoadValues(const SavedCheckpoint& saved);
  // Values of the checkpoint that no rank has been given.
  void WarnOfLeftValues() const;
  // If it is a checkpoint of this directory, which was read to its end.
  void KnowLoaded(const std::string& path);

  const std::shared_ptr<ProcessGroup> group_;
  Files& files_;
  const CheckpointOptions options_;
  CheckpointJob job_ = 0;
  int64_t run_ = -1;  // -1: ranks have not agreed yet that this job saves
  bool loaded_ = false;
  LockSighting seen_;                    // rank 0's
  std::optional<CheckpointName> whole_;  // that was loaded
  int64_t last_step_ = -1;
  bool asked_ = true;  // how the last save has ended
  std::vector<std::pair<std::string, std::unique_ptr<ContextState>>> contexts_;
  CallerTensors tensors_;
  std::vector<ValueCalls> values_;
  std::string loaded_path_;  // "": none was loaded
  std::vector<SavedValue> loaded_values_;
  std::unique_ptr<Keeper> keeper_;  // rank 0's, from the first save on
  Saver saver_;                     // before that it ends
};

}  // namespace weft
