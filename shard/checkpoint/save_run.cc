#include "shard/checkpoint/save_run.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {
namespace {

// A rank that does not see within this what rank 0 makes at once has another directory, or rank 0 is late.
constexpr int64_t kSignPatienceNs = 30'000'000'000;
constexpr int64_t kFirstPauseNs = 1'000'000;
constexpr int64_t kLongestPauseNs = 50'000'000;

// Asks `there` until it is true, or fails, or the time is over: then false. ABORTED if that is not to be waited for; what came before that
// was known is seen. INTERRUPTED as this thread's check says.
absl::StatusOr<bool> WaitUntil(Patience& patience, int64_t deadline_ns,
                               const std::function<absl::StatusOr<bool>()>& there) {
  for (int64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    const absl::Status over = patience.Over();
    WEFT_ASSIGN_OR_RETURN(const bool found, there());
    const int64_t now_ns = patience.NowNs();
    if (found || now_ns >= deadline_ns) return found;
    if (!over.ok()) {
      return MakeError(WEFT_ABORTED, FieldsOf(over),
                       StrCat("not all ranks will write their parts: ", FromAbsl(over.message())));
    }
    WEFT_RETURN_IF_ERROR(CheckInterrupt("waiting for the other ranks to write"));
    patience.PauseUntil(std::min(now_ns + pause_ns, deadline_ns));
  }
}

std::string NoSign(const CheckpointPlace& place) {
  return StrCat("rank ", place.rank, " does not see in ", place.path(),
                " what rank 0 writes when it begins to save; all ranks need one directory, such as "
                "one of a file system that all nodes share");
}

// False if rank 0 has not committed yet; an error if some rank says that it could not write.
absl::StatusOr<bool> LookForManifest(Files& files, const CheckpointPlace& place) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(place.path()));
  // First: somebody whose time was over may have said so while rank 0 committed.
  if (HasManifest(names)) return true;
  for (const std::string& name : names) {
    const std::optional<int> rank = RankOfFailureName(name);
    if (rank) WEFT_RETURN_IF_ERROR(FailureOf(files, place, *rank));
  }
  return false;
}

absl::Status WaitForSign(Files& files, Patience& patience, const CheckpointPlace& place,
                         int64_t deadline_ns) {
  const int64_t warn_ns = Later(patience.NowNs(), kSignPatienceNs);
  bool warned = false;
  WEFT_ASSIGN_OR_RETURN(const bool seen,
                        WaitUntil(patience, deadline_ns, [&]() -> absl::StatusOr<bool> {
                          if (!warned && patience.NowNs() >= warn_ns) {
                            warned = true;
                            LogWarn("checkpoint: ", NoSign(place));
                          }
                          WEFT_ASSIGN_OR_RETURN(const bool begun, HasBegun(files, place));
                          if (begun) return true;
                          // It may all be over, or rank 0 could not begin.
                          return LookForManifest(files, place);
                        }));
  if (seen) return absl::OkStatus();
  return MakeError(WEFT_UNREACHABLE, {.rank = 0}, NoSign(place));
}

absl::Status DeadlineError(const CheckpointPlace& place, const SaveSettings& settings,
                           std::string_view missing) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  return MakeError(WEFT_TIMEOUT, StrCat(missing, " within ", settings.timeout_ns / kSecondNs,
                                        " s; the checkpoint ", place.path(),
                                        " was not made, earlier ones are as "
                                        "they were"));
}

absl::Status CommitAll(Files& files, Patience& patience, const CheckpointPlace& place,
                       const SaveSettings& settings, int64_t deadline_ns) {
  Committer committer(files, place);
  WEFT_ASSIGN_OR_RETURN(const bool complete,
                        WaitUntil(patience, deadline_ns, [&] { return committer.Look(); }));
  if (!complete) {
    return DeadlineError(place, settings,
                         StrCat(committer.Missing(), " had not written to the end"));
  }
  return committer.Commit(settings.config);
}

// Only when the new one can be read again: never below one that was looked at. That something could not be removed is no failure of the save.
void RemoveOutdated(Files& files, const CheckpointPlace& place, const Retention& retention) {
  const auto latest = SavedCheckpoint::Open(files, place.path());
  if (!latest.ok()) {
    LogWarn("checkpoint: what was just written cannot be read, so nothing older is removed: ",
            FromAbsl(latest.status().message()));
    return;
  }
  const auto all = ListCheckpoints(files, place.root);
  absl::Status removed = all.status();
  for (const CheckpointName& name :
       all.ok() ? Outdated(*all, place.name, retention) : std::vector<CheckpointName>()) {
    if (removed.ok()) removed = RemoveCheckpoint(files, place.root, name);
  }
  if (!removed.ok())
    LogWarn("checkpoint: outdated ones could not be removed: ", FromAbsl(removed.message()));
}

absl::Status WaitForCommit(Files& files, Patience& patience, const CheckpointPlace& place,
                           const SaveSettings& settings, int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const bool committed, WaitUntil(patience, deadline_ns, [&] {
                          return LookForManifest(files, place);
                        }));
  if (committed) return absl::OkStatus();
  return DeadlineError(place, settings, "rank 0 had not seen the parts of all ranks");
}

absl::Status WriteOwn(Files& files, const CheckpointPlace& place, Snapshot& snapshot) {
  WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
  WEFT_RETURN_IF_ERROR(WriteRank(files, place, snapshot));
  snapshot.holds.clear();
  return absl::OkStatus();
}

}  // namespace

absl::Status RunSave(Files& files, Patience& patience, const CheckpointPlace& place,
                     Snapshot& snapshot, const SaveSettings& settings) {
  const int64_t deadline_ns = Later(patience.NowNs(), settings.timeout_ns);
  absl::Status status = WriteOwn(files, place, snapshot);
  if (status.ok() && place.rank != 0) {
    // From here on an error is no failure of this rank, whose part is there: the others need not hear of it.
    WEFT_RETURN_IF_ERROR(WaitForSign(files, patience, place, deadline_ns));
    return WaitForCommit(files, patience, place, settings, deadline_ns);
  }
  if (status.ok()) status = CommitAll(files, patience, place, settings, deadline_ns);
  if (!status.ok()) {
    ReportFailure(files, place, status);
    return status;
  }
  RemoveOutdated(files, place, settings.retention);
  return absl::OkStatus();
}

}  // namespace weft
