#include "shard/checkpoint/checkpoint.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/later.h"
#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "shard/checkpoint/rank_writer.h"

namespace weft {
namespace {

// What ranks agree on when they are to save in one directory.
struct RunNumber {
  int64_t run = -1;  // -1: rank 0 could not look
  CheckpointJob job = 0;
};

absl::Status DrawRun(Files& files, const std::string& root, RunNumber* number) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, root));
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(&number->job, sizeof(number->job)));
  number->run = NextRun(all);
  return absl::OkStatus();
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
  std::unique_ptr<Checkpoint> checkpoint(
      new Checkpoint(std::move(group), files, std::move(options)));
  WEFT_RETURN_IF_ERROR(checkpoint->AgreeOnRun());
  return checkpoint;
}

absl::Status Checkpoint::AgreeOnRun() {
  RunNumber number;
  absl::Status looked;
  if (group_->rank() == 0) looked = DrawRun(files_, options_.directory, &number);
  WEFT_RETURN_IF_ERROR(group_->Run({.kind = OpKind::kBroadcast,
                                    .dtype = WEFT_UINT8,
                                    .count = sizeof(number),
                                    .in = &number,
                                    .out = &number,
                                    .timeout_ns = options_.timeout_ns}));
  WEFT_RETURN_IF_ERROR(looked);
  if (number.run < 0) {
    return MakeError(WEFT_SYSTEM_ERROR, {.rank = 0},
                     StrCat("rank 0 could not list the checkpoints in ", options_.directory));
  }
  run_ = number.run;
  job_ = number.job;
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
  absl::StatusOr<ContextState> state = ContextState::Of(context);
  WEFT_RETURN_IF_ERROR(state.status());
  contexts_.emplace_back(name, std::make_unique<ContextState>(*std::move(state)));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddValue(ValueCalls calls) {
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
  const CheckpointPlace place{.root = options_.directory,
                              .name = {.run = run_, .step = step},
                              .job = job_,
                              .rank = group_->rank(),
                              .ranks = group_->size()};
  last_step_ = step;
  asked_ = true;
  absl::StatusOr<Snapshot> snapshot = Take(how == How::kInPlace);
  if (!snapshot.ok()) {
    // So that the others need not wait for this rank.
    ReportFailure(files_, place, snapshot.status());
    return snapshot.status();
  }
  const SaveSettings settings{.timeout_ns = options_.timeout_ns,
                              .config = options_.config,
                              .retention = options_.retention};
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

absl::Status Checkpoint::LoadValues(const Manifest& manifest) {
  for (const ValueCalls& calls : values_) {
    const int rank = calls.per_rank ? group_->rank() : -1;
    const auto found = std::find_if(
        manifest.values.begin(), manifest.values.end(),
        [&](const SavedValue& value) { return value.name == calls.name && value.rank == rank; });
    WEFT_RETURN_IF_ERROR(calls.load(found == manifest.values.end() ? nullptr : &found->bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint::Loaded> Checkpoint::Load(int64_t step, uint32_t kinds, bool whole) {
  const std::vector<NamedSource> sources = Sources();
  LoadRequest request{.root = options_.directory,
                      .step = step,
                      .kinds = kinds,
                      .whole = whole || kinds != WEFT_SHARD_STATE_VALUES,
                      .timeout_ns = options_.timeout_ns};
  if (kinds != WEFT_SHARD_STATE_VALUES) {
    request.check = [this](const SavedCheckpoint& saved) {
      return LoadValues(saved.manifest());
    };
  }
  // It may still read what is to be written now. How it has ended is told of later.
  const absl::Status waited = saver_.WaitUntil(std::numeric_limits<int64_t>::max()).status();
  if (IsUnderWay(saver_)) return waited;
  absl::StatusOr<SavedCheckpoint> saved = LoadCheckpoint(*group_, files_, sources, request);
  WEFT_RETURN_IF_ERROR(saved.status());
  for (const NamedSource& named : sources)
    WEFT_RETURN_IF_ERROR(named.source->Written(kinds));
  last_step_ = std::max(last_step_, saved->manifest().step);
  return Loaded{saved->manifest().step, saved->path(), saved->manifest().ranks};
}

}  // namespace weft
