// MadeUpRanks and OldAndNew of made_up_state.h, apart: who reads alone needs nothing that saves.
#include <utility>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/directory_lock.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/restore.h"
#include "tests/shard/checkpoint/made_up_state.h"

namespace weft::test {
namespace {

// Above all that Linux gives.
constexpr int32_t kNoProcess = 1 << 30;

// One that never sleeps: ranks take turns, so what is not there will not come.
class NoPatience : public Patience {
 public:
  int64_t NowNs() override { return now_ns_ += 1'000'000'000; }

  void PauseUntil(int64_t /*time_ns*/) override {}

  absl::Status Over() override { return absl::OkStatus(); }

 private:
  int64_t now_ns_ = 0;
};

std::vector<SavedValue> ValuesOf(const std::vector<SavedValue>& all, int rank) {
  std::vector<SavedValue> own;
  for (const SavedValue& value : all) {
    if (value.writer() == rank) own.push_back(value);
  }
  return own;
}

}  // namespace

MadeUpRanks::MadeUpRanks(const MadeUpModel& model, int ranks, size_t overlap) {
  for (int rank = 0; rank < ranks; ++rank)
    states.push_back(std::make_unique<MadeUpState>(model, rank, ranks, overlap));
}

absl::Status MadeUpRanks::Save(Files& files, const std::string& root, const MadeUpSave& save) {
  absl::Status first = files.MakeDirectory(root);
  NoPatience patience;
  std::unique_ptr<DirectoryLock> lock;
  if (save.locked) {
    WEFT_RETURN_IF_ERROR(first);
    Proc& proc = *SystemSeams().proc;
    LockOwner self = ThisProcess(proc, save.job);
    self.pid = kNoProcess;
    WEFT_ASSIGN_OR_RETURN(
        lock, DirectoryLock::Take(files, proc, patience, {.root = root, .self = std::move(self)}));
  }
  Keeper keeper(files, root, save.retention, std::move(lock));
  const SaveSettings settings{.timeout_ns = 1, .config = save.config, .keeper = &keeper};
  CheckpointPlace place{.root = root,
                        .name = {.run = save.run, .step = save.step},
                        .job = save.job,
                        .ranks = static_cast<int>(states.size())};
  for (int rank = place.ranks - 1; rank >= 0; --rank) {
    place.rank = rank;
    absl::StatusOr<Snapshot> snapshot =
        TakeSnapshot({{"", states[static_cast<size_t>(rank)].get()}}, ValuesOf(save.values, rank));
    absl::Status saved = snapshot.status();
    if (saved.ok() && rank == 0) {
      saved = RunSave(files, patience, place, *snapshot, settings);
    } else if (saved.ok()) {
      // What RunSave does but for its waits, which rank 0 would have to end.
      saved = BeginCheckpoint(files, place);
      if (saved.ok()) saved = WriteRank(files, place, *snapshot);
      if (!saved.ok()) ReportFailure(files, place, saved);
    }
    first.Update(saved);
  }
  return first;
}

absl::Status MadeUpRanks::Restore(Files& files, const std::string& path, uint32_t kinds) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, path));
  for (const std::unique_ptr<MadeUpState>& state : states) {
    WEFT_RETURN_IF_ERROR(CheckFits(saved, {{"", state.get()}}, kinds));
    WEFT_RETURN_IF_ERROR(weft::Restore(saved, {{"", state.get()}}, kinds));
  }
  for (const SavedValue& value : saved.manifest().values) {
    WEFT_ASSIGN_OR_RETURN(const std::string bytes, saved.Value(value));
    if (bytes != MadeUpValue(value.rank) && value.name == kMadeUpValue)
      return MakeError(WEFT_CORRUPT, "a value is not as it was saved");
  }
  return absl::OkStatus();
}

void MadeUpRanks::Clear() {
  for (const std::unique_ptr<MadeUpState>& state : states)
    state->Clear();
}

std::string MadeUpRanks::Difference(uint32_t kinds) const {
  for (const std::unique_ptr<MadeUpState>& state : states) {
    std::string difference = state->Difference(kinds);
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string OldAndNew::Problem(Files& files, const std::string& root, bool committed) const {
  const auto all = ListCheckpoints(files, root);
  if (!all.ok()) return all.status().ToString();
  int64_t latest = -1;
  for (const CatalogEntry& entry : *all) {
    if (!entry.committed) continue;
    latest = entry.name.step;
    MadeUpRanks ranks(latest == kOldStep ? old : fresh, 3);
    ranks.Clear();
    const absl::Status restored = ranks.Restore(files, JoinPath(root, DirectoryName(entry.name)));
    if (!restored.ok()) return restored.ToString();
    std::string difference = ranks.Difference();
    if (!difference.empty()) return difference;
  }
  if (latest == kNewStep || (latest == kOldStep && !committed)) return "";
  return StrCat("the latest is that of step ", latest);
}

}  // namespace weft::test
