#include "shard/checkpoint/save_ground.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kNamedMax = 3;

// "step-00000010, step-00000020, step-00000030 and 4 more".
std::string NamesOf(const std::vector<CheckpointName>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamedMax); ++i)
    text += StrCat(i == 0 ? "" : ", ", DirectoryName(names[i]));
  if (names.size() > kNamedMax) text += StrCat(" and ", names.size() - kNamedMax, " more");
  return text;
}

// Those that go once enough others have been saved.
std::vector<CheckpointName> PushedOut(const std::vector<CatalogEntry>& all,
                                      const Retention& retention) {
  std::vector<CheckpointName> names;
  if (retention.last == 0) return names;
  for (const CatalogEntry& entry : all) {
    const bool kept = retention.every > 0 && entry.name.step % retention.every == 0;
    if (entry.committed && !entry.pinned && !kept) names.push_back(entry.name);
  }
  return names;
}

absl::Status CheckWhatIsThere(const std::vector<CatalogEntry>& all, const GroundRequest& request) {
  if (request.may_push_out) return absl::OkStatus();
  const std::vector<CheckpointName> names = PushedOut(all, request.retention);
  if (names.empty()) return absl::OkStatus();
  const std::string found = StrCat(
      request.root, " has ", names.size(), names.size() == 1 ? " checkpoint" : " checkpoints",
      " that this run has not loaded, ", NamesOf(names),
      ", and that its own saves push out, as keep_last is ", request.retention.last,
      "; load one to go on with that run, choose another directory, or keep them by "
      "weftctl checkpoint pin");
  if (request.refuses) return MakeError(WEFT_BAD_STATE, found);
  LogWarn("checkpoint: ", found);
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeGround(Files& files, Proc& proc, Patience& patience, const GroundRequest& request,
                        SaveGround* ground) {
  WEFT_RETURN_IF_ERROR(files.MakeDirectory(request.root));
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock =
      DirectoryLock::Take(files, proc, patience,
                          {.root = request.root,
                           .self = ThisProcess(proc, request.token),
                           .seen = request.seen,
                           .deadline_ns = request.deadline_ns});
  WEFT_RETURN_IF_ERROR(lock.status());
  // From here on nobody else adds one.
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, request.root));
  WEFT_RETURN_IF_ERROR(CheckWhatIsThere(all, request));
  ground->lock = *std::move(lock);
  ground->run = NextRun(all);
  return absl::OkStatus();
}

AgreedGround AgreedGround::Of(const SaveGround& ground, const absl::Status& taken) {
  AgreedGround agreed{.run = taken.ok() ? ground.run : -1,
                      .result = static_cast<int32_t>(ResultOf(taken))};
  const std::string_view text = FromAbsl(taken.message());
  std::copy_n(text.begin(), std::min(text.size(), agreed.sentence.size() - 1),
              agreed.sentence.begin());
  return agreed;
}

absl::Status AgreedGround::status() const {
  if (run >= 0) return absl::OkStatus();
  return MakeError(static_cast<weft_result_t>(result), {.rank = 0},
                   StrCat("rank 0 cannot save: ", sentence.data()));
}

}  // namespace weft
