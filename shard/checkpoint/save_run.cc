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
#include "shard/checkpoint/given_up.h"
#include "shard/checkpoint/rank_writer.h"

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

absl::Status GivenUp(const CheckpointPlace& place) {
  return MakeError(WEFT_SYSTEM_ERROR, {.rank = 0},
                   StrCat("rank 0 has given up the checkpoint ", place.path(),
                          ", and gone on without it; what it said of its save has the reason"));
}

// False if rank 0 has not committed yet; an error if some rank says that it could not write.
absl::StatusOr<bool> LookForManifest(Files& files, const CheckpointPlace& place) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(place.path());
  if (absl::IsNotFound(names.status())) return GivenUp(place);
  WEFT_RETURN_IF_ERROR(names.status());
  // First: somebody whose time was over may have said so while rank 0 committed.
  if (HasManifest(*names)) return true;
  for (const std::string& name : *names) {
    const std::optional<int> rank = RankOfFailureName(name);
    if (rank) WEFT_RETURN_IF_ERROR(FailureOf(files, place, *rank));
  }
  return false;
}

// The same once rank 0 has begun: what it began with is there until it commits, or gives up.
absl::StatusOr<bool> LookForCommit(Files& files, const CheckpointPlace& place) {
  WEFT_ASSIGN_OR_RETURN(const bool begun, HasBegun(files, place));
  WEFT_ASSIGN_OR_RETURN(const bool committed, LookForManifest(files, place));
  if (begun || committed) return committed;
  return GivenUp(place);
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
                          WEFT_ASSIGN_OR_RETURN(const bool over, LookForManifest(files, place));
                          if (over) return true;
                          if (HasGivenUp(files, place)) return GivenUp(place);
                          return false;
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

absl::Status AwaitRecords(Committer& committer, Patience& patience, const CheckpointPlace& place,
                          const SaveSettings& settings, int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const bool complete,
                        WaitUntil(patience, deadline_ns, [&] { return committer.Look(); }));
  if (complete) return absl::OkStatus();
  return DeadlineError(place, settings, StrCat(committer.Missing(), " had not written to the end"));
}

absl::Status WaitForCommit(Files& files, Patience& patience, const CheckpointPlace& place,
                           const SaveSettings& settings, int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const bool committed, WaitUntil(patience, deadline_ns, [&] {
                          return LookForCommit(files, place);
                        }));
  if (committed) return absl::OkStatus();
  return DeadlineError(place, settings, "rank 0 had not seen the parts of all ranks");
}

// What failed saves have left may have taken the room: rank 0 removes that before it begins, and then there may be enough.
absl::Status WriteWhereRoomIs(Files& files, Patience& patience, const CheckpointPlace& place,
                              const Snapshot& snapshot, int64_t deadline_ns) {
  absl::Status written = WriteRank(files, place, snapshot);
  if (ResultOf(written) != WEFT_OUT_OF_MEMORY) return written;
  // Of a record that failed nobody knows whether rank 0 has seen it: then what it speaks of stays.
  for (const std::string& name : {RecordName(place.rank), TensorFileName(place.rank)}) {
    if (!absl::IsNotFound(files.Open(place.PathOf(name)).status())) return written;
  }
  const absl::Status begun = WaitForSign(files, patience, place, deadline_ns);
  return begun.ok() ? WriteRank(files, place, snapshot) : written;
}

// ---- rank 0 -------------------------------------------------------------------------------------

absl::Status WriteAndCommit(Files& files, Patience& patience, const CheckpointPlace& place,
                            Snapshot& snapshot, const SaveSettings& settings,
                            Committer& committer) {
  const int64_t deadline_ns = Later(patience.NowNs(), settings.timeout_ns);
  if (settings.keeper != nullptr) WEFT_RETURN_IF_ERROR(settings.keeper->BeginSave(place.name));
  WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
  WEFT_RETURN_IF_ERROR(WriteRank(files, place, snapshot));
  snapshot.holds.clear();
  WEFT_RETURN_IF_ERROR(AwaitRecords(committer, patience, place, settings, deadline_ns));
  if (settings.keeper != nullptr) WEFT_RETURN_IF_ERROR(settings.keeper->CheckLock());
  return committer.Commit(settings.config);
}

absl::Status SaveAsCommitter(Files& files, Patience& patience, const CheckpointPlace& place,
                             Snapshot& snapshot, const SaveSettings& settings) {
  Committer committer(files, place);
  absl::Status status = WriteAndCommit(files, patience, place, snapshot, settings, committer);
  if (status.ok()) {
    if (settings.keeper != nullptr) settings.keeper->EndSave(place.name);
    return status;
  }
  const bool given_up = !committer.may_be_committed();
  // Before the word, which may find no room otherwise.
  if (given_up) RemoveOwnData(files, place);
  ReportFailure(files, place, status);
  if (given_up) RemoveFinishedData(files, place);
  return status;
}

// ---- the others ---------------------------------------------------------------------------------

absl::Status SaveAsOther(Files& files, Patience& patience, const CheckpointPlace& place,
                         Snapshot& snapshot, const SaveSettings& settings) {
  const int64_t deadline_ns = Later(patience.NowNs(), settings.timeout_ns);
  absl::Status status = BeginCheckpoint(files, place);
  bool vanished = false;
  if (status.ok()) {
    status = WriteWhereRoomIs(files, patience, place, snapshot, deadline_ns);
    // Rank 0 alone removes a directory that was there, before it begins the next checkpoint: nothing else tells of that yet.
    vanished = absl::IsNotFound(status);
  }
  if (!status.ok()) {
    if (!vanished && !HasGivenUp(files, place)) {
      ReportFailure(files, place, status);
      return status;
    }
    RemoveOwnData(files, place);
    return absl::IsNotFound(status) ? GivenUp(place) : status;
  }
  snapshot.holds.clear();
  status = WaitForSign(files, patience, place, deadline_ns);
  if (status.ok()) status = WaitForCommit(files, patience, place, settings, deadline_ns);
  if (status.ok()) return status;
  // An error from here on is no failure of this rank, whose part is there: the others need not hear of it, but for one that takes its part back.
  bool given_up = HasGivenUp(files, place);
  if (!given_up && HasNotBegun(files, place)) {
    ReportFailure(files, place, status);
    // If rank 0 has not begun even now, it will see that word when it does.
    given_up = HasNotBegun(files, place);
  }
  if (given_up) RemoveOwnData(files, place);
  return status;
}

}  // namespace

absl::Status RunSave(Files& files, Patience& patience, const CheckpointPlace& place,
                     Snapshot& snapshot, const SaveSettings& settings) {
  return place.rank == 0 ? SaveAsCommitter(files, patience, place, snapshot, settings)
                         : SaveAsOther(files, patience, place, snapshot, settings);
}

void TellFailure(Files& files, const CheckpointPlace& place, const SaveSettings& settings,
                 const absl::Status& failure) {
  if (settings.keeper != nullptr) {
    const absl::Status room = settings.keeper->BeginSave(place.name);
    if (!room.ok()) LogDebug("checkpoint: ", FromAbsl(room.message()));
  }
  // A word to ranks that have gone on would be there for ever.
  if (place.rank == 0 || !HasGivenUp(files, place)) ReportFailure(files, place, failure);
}

}  // namespace weft
