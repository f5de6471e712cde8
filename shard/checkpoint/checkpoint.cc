#include "shard/checkpoint/checkpoint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/later.h"
#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/given_name.h"
#include "shard/checkpoint/patience.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/save_ground.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

const SavedValue* FindValue(const std::vector<SavedValue>& values, std::string_view name,
                            int rank) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const SavedValue& value) {
    return value.name == name && value.rank == rank;
  });
  return found == values.end() ? nullptr : &*found;
}

// After a wait that failed: it was the wait that was interrupted, and not the save that has failed.
bool IsUnderWay(Saver& saver) {
  const absl::StatusOr<bool> ended = saver.Test();
  return ended.ok() && !*ended;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Create(std::shared_ptr<ProcessGroup> group,
                                                               Files& files,
                                                               CheckpointOptions options) {
  WEFT_ASSIGN_OR_RETURN(options.directory, AbsolutePath(options.directory));
  std::unique_ptr<Checkpoint> checkpoint(
      new Checkpoint(std::move(group), files, std::move(options)));
  WEFT_RETURN_IF_ERROR(checkpoint->AgreeOnJob());
  return checkpoint;
}

absl::Status Checkpoint::AgreeOnJob() {
  job_ = 0;  // it stays 0 if rank 0 could not look
  absl::Status looked;
  if (group_->rank() == 0) {
    looked = ListCheckpoints(files_, options_.directory).status();
    if (looked.ok()) looked = SystemSeams().random->Fill(&job_, sizeof(job_));
    // Its own checkpoints have no part in this: who only loads never takes the lock.
    seen_ = LookAtLock(files_, options_.directory, MonotonicNs());
  }
  WEFT_RETURN_IF_ERROR(group_->Run({.kind = OpKind::kBroadcast,
                                    .dtype = WEFT_UINT8,
                                    .count = sizeof(job_),
                                    .in = &job_,
                                    .out = &job_,
                                    .timeout_ns = options_.timeout_ns}));
  WEFT_RETURN_IF_ERROR(looked);
  if (job_ != 0) return absl::OkStatus();
  return MakeError(WEFT_SYSTEM_ERROR, {.rank = 0},
                   StrCat("rank 0 could not list the checkpoints in ", options_.directory));
}

absl::Status Checkpoint::AgreeOnGround() {
  SaveGround ground;
  absl::Status taken;
  if (group_->rank() == 0) {
    SystemPatience patience([] { return absl::OkStatus(); });
    GroundRequest request{
        .root = options_.directory,
        .token = job_,
        .seen = seen_,
        // The others wait in a collective meanwhile.
        .deadline_ns = Later(MonotonicNs(), options_.timeout_ns / 2),
        .retention = options_.retention,
        // The state of a group that was made anew may be in no checkpoint, and is the same job's.
        .may_push_out = loaded_ || group_->epoch() > 1,
        .refuses = options_.refuse_not_loaded};
    taken = TakeGround(files_, *SystemSeams().proc, patience, request, &ground);
  }
  AgreedGround agreed = AgreedGround::Of(ground, taken);
  WEFT_RETURN_IF_ERROR(group_->Run({.kind = OpKind::kBroadcast,
                                    .dtype = WEFT_UINT8,
                                    .count = sizeof(agreed),
                                    .in = &agreed,
                                    .out = &agreed,
                                    .timeout_ns = options_.timeout_ns}));
  WEFT_RETURN_IF_ERROR(taken);
  WEFT_RETURN_IF_ERROR(agreed.status());
  run_ = agreed.run;
  if (ground.lock == nullptr) return absl::OkStatus();
  keeper_ = std::make_unique<Keeper>(files_, options_.directory, options_.retention,
                                     std::move(ground.lock));
  if (whole_) keeper_->KnowWhole(*whole_);
  return absl::OkStatus();
}

absl::Status Checkpoint::AddContext(std::string_view name, Context& context) {
  for (const auto& [taken, state] : contexts_) {
    if (taken == name) {
      return MakeError(
          WEFT_INVALID_ARGUMENT,
          StrCat("a context named \"", name, "\" was added before; give each a name of its own"));
    }
  }
  WEFT_RETURN_IF_ERROR(CheckContextName(name));
  absl::StatusOr<ContextState> state = ContextState::Of(context);
  WEFT_RETURN_IF_ERROR(state.status());
  for (const SavedTensor& tensor : state->tensors())
    WEFT_RETURN_IF_ERROR(CheckGivenName("tensor", tensor.name));
  contexts_.emplace_back(name, std::make_unique<ContextState>(*std::move(state)));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddValue(ValueCalls calls) {
  WEFT_RETURN_IF_ERROR(CheckGivenName("value", calls.name));
  for (const ValueCalls& other : values_) {
    if (other.name == calls.name) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("a value named \"", calls.name,
                              "\" was added before; give each a name of its own"));
    }
  }
  values_.push_back(std::move(calls));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddTensor(SavedTensor tensor, size_t begin, size_t count, void* data) {
  WEFT_RETURN_IF_ERROR(CheckGivenName("tensor", tensor.name));
  const size_t total = tensor.count();
  if (begin > total || count > total - begin) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("elements [", begin, ", ", begin + count, ") of tensor ", tensor.name,
                            " were passed, which has ", total));
  }
  tensors_.Add(std::move(tensor), begin, count, data);
  return absl::OkStatus();
}

std::vector<NamedSource> Checkpoint::Sources() {
  std::vector<NamedSource> sources;
  for (const auto& [name, state] : contexts_)
    sources.push_back({name, state.get()});
  if (!tensors_.tensors().empty()) sources.push_back({"", &tensors_});
  return sources;
}

absl::StatusOr<Snapshot> Checkpoint::Take(bool in_place) {
  std::vector<SavedValue> values;
  for (const ValueCalls& calls : values_) {
    if (!calls.per_rank && group_->rank() != 0) continue;
    WEFT_ASSIGN_OR_RETURN(std::string bytes, calls.save());
    values.push_back({.name = calls.name,
                      .rank = calls.per_rank ? group_->rank() : -1,
                      .bytes = std::move(bytes)});
  }
  return TakeSnapshot(Sources(), std::move(values), in_place,
                      Later(MonotonicNs(), options_.timeout_ns));
}

absl::Status Checkpoint::Save(int64_t step, How how) {
  if (step <= last_step_ || step > kCheckpointStepMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("checkpoint_save: step ", step, " does not follow step ", last_step_,
                            ", which was saved last; steps must grow, up to 2^53"));
  }
  if (!asked_) {
    const absl::StatusOr<bool> ended = WaitUntil(std::numeric_limits<int64_t>::max());
    if (!asked_) return ended.status();  // interrupted
    if (!ended.ok()) {
      LogWarn("checkpoint: the save of step ", last_step_,
              " failed: ", FromAbsl(ended.status().message()));
    }
  }
  if (run_ < 0) WEFT_RETURN_IF_ERROR(AgreeOnGround());
  const CheckpointPlace place{.root = options_.directory,
                              .name = {.run = run_, .step = step},
                              .job = job_,
                              .rank = group_->rank(),
                              .ranks = group_->size()};
  last_step_ = step;
  asked_ = true;
  const SaveSettings settings{
      .timeout_ns = options_.timeout_ns, .config = options_.config, .keeper = keeper_.get()};
  absl::StatusOr<Snapshot> snapshot = Take(how == How::kInPlace);
  if (!snapshot.ok()) {
    // So that the others need not wait for this rank.
    TellFailure(files_, place, settings, snapshot.status());
    return snapshot.status();
  }
  if (how == How::kForeground) return saver_.Run(place, *std::move(snapshot), settings);
  absl::Status started = saver_.Start(place, *std::move(snapshot), settings);
  asked_ = !started.ok();
  return started;
}

absl::StatusOr<bool> Checkpoint::Test() {
  absl::StatusOr<bool> ended = saver_.Test();
  asked_ = !ended.ok() || *ended;
  return ended;
}

absl::StatusOr<bool> Checkpoint::WaitUntil(int64_t deadline_ns) {
  absl::StatusOr<bool> ended = saver_.WaitUntil(deadline_ns);
  asked_ = ended.ok() ? *ended : !IsUnderWay(saver_);
  return ended;
}

absl::Status Checkpoint::LoadValues(const SavedCheckpoint& saved) {
  // All are read before any is given: what is damaged is passed over for another checkpoint.
  std::vector<std::optional<std::string>> bytes;
  for (const ValueCalls& calls : values_) {
    const SavedValue* const value =
        FindValue(saved.manifest().values, calls.name, calls.per_rank ? group_->rank() : -1);
    bytes.emplace_back();
    if (value == nullptr) continue;
    WEFT_ASSIGN_OR_RETURN(bytes.back(), saved.Value(*value));
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const absl::Status taken = values_[i].load(bytes[i] ? &*bytes[i] : nullptr);
    // Whatever the program's reason, the checkpoint is none for it.
    if (!taken.ok()) return MakeError(WEFT_INVALID_ARGUMENT, FromAbsl(taken.message()));
  }
  return absl::OkStatus();
}

void Checkpoint::WarnOfLeftValues() const {
  std::map<std::string_view, std::vector<int>> gone;  // by name, the ranks that are not there
  std::set<std::string_view> unknown;
  for (const SavedValue& value : loaded_values_) {
    if (value.name == kSafetensorsMetadata) continue;  // of an import; no program has added it
    const bool known = std::any_of(values_.begin(), values_.end(), [&](const ValueCalls& calls) {
      return calls.name == value.name && calls.per_rank == (value.rank >= 0);
    });
    if (!known)
      unknown.insert(value.name);
    else if (value.rank >= group_->size())
      gone[value.name].push_back(value.rank);
  }
  std::string text;
  for (const auto& [name, ranks] : gone)
    text += StrCat("; value ", name, " of ", RankList(ranks), ", which this group has not");
  for (const std::string_view name : unknown)
    text += StrCat("; value ", name, ", which was not added");
  if (text.empty()) return;
  LogWarn("checkpoint ", loaded_path_, " has values that no rank was given", text,
          "; weft_checkpoint_value_read reads them");
}

absl::StatusOr<std::optional<std::string>> Checkpoint::LoadedValue(std::string_view name,
                                                                   int rank) const {
  if (loaded_path_.empty())
    return MakeError(WEFT_BAD_STATE, "no checkpoint was loaded yet; load one first");
  const SavedValue* const value = FindValue(loaded_values_, name, rank);
  if (value == nullptr) return std::nullopt;
  absl::StatusOr<std::string> bytes =
      ReadValue(files_, loaded_path_, *value, ValueFileBytes(loaded_values_));
  if (bytes.ok()) return std::optional<std::string>(*std::move(bytes));
  if (!absl::IsNotFound(bytes.status())) return bytes.status();
  return MakeError(WEFT_SYSTEM_ERROR,
                   StrCat(FromAbsl(bytes.status().message()), "; the checkpoint ", loaded_path_,
                          " was removed since it was loaded: read values before the next save"));
}

void Checkpoint::KnowLoaded(const std::string& path) {
  if (ParentDirectory(path) != ParentDirectory(JoinPath(options_.directory, "one"))) return;
  loaded_ = true;
  whole_ = ParseDirectoryName(std::string_view(path).substr(path.rfind('/') + 1));
  if (keeper_ != nullptr && whole_) keeper_->KnowWhole(*whole_);
}

absl::StatusOr<Checkpoint::Loaded> Checkpoint::Load(int64_t step, uint32_t kinds, bool whole,
                                                    const LoadFrom& from) {
  const std::vector<NamedSource> sources = Sources();
  // Values may be read from there later.
  std::string root = options_.directory;
  if (!from.path.empty()) {
    WEFT_ASSIGN_OR_RETURN(root, AbsolutePath(from.path));
  }
  LoadRequest request{.root = std::move(root),
                      .step = step,
                      .kinds = kinds,
                      .whole = whole || kinds != WEFT_SHARD_STATE_VALUES,
                      .others = !from.path.empty(),
                      .rules = from.rules,
                      .timeout_ns = options_.timeout_ns};
  if (kinds != WEFT_SHARD_STATE_VALUES) {
    request.check = [this](const SavedCheckpoint& saved) {
      return LoadValues(saved);
    };
  }
  // It may still read what is to be written now. How it has ended is told of later.
  absl::Status waited = saver_.WaitUntil(std::numeric_limits<int64_t>::max()).status();
  if (IsUnderWay(saver_)) return waited;
  LeftTensors left;
  absl::StatusOr<SavedCheckpoint> saved = LoadCheckpoint(*group_, files_, sources, request, &left);
  WEFT_RETURN_IF_ERROR(saved.status());
  for (const NamedSource& named : sources)
    WEFT_RETURN_IF_ERROR(named.source->Written(kinds));
  loaded_path_ = saved->path();
  loaded_values_ = saved->manifest().values;
  if (kinds != WEFT_SHARD_STATE_VALUES && group_->rank() == 0) WarnOfLeftValues();
  // Values of another run are where this one begins, with steps of its own.
  if (from.path.empty() || kinds != WEFT_SHARD_STATE_VALUES)
    last_step_ = std::max(last_step_, saved->manifest().step);
  KnowLoaded(saved->path());
  return Loaded{saved->manifest().step, saved->path(), saved->manifest().ranks, std::move(left)};
}

}  // namespace weft
