// Rank 0 lists the directory and the others go by its list: a file system may show them a change later. One all_gather of a word per
// checkpoint that is tried tells whether all ranks have it.
#include "shard/checkpoint/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/restore.h"
#include "shard/checks/agreement.h"

namespace weft {
namespace {

// So many are tried.
constexpr size_t kCandidatesMax = 64;

// How a rank has fared with a checkpoint; the worst counts.
enum class Outcome : int32_t { kGood = 0, kDamaged = 1, kRefused = 2, kNotTaken = 3 };

struct CandidateList {
  int64_t count = -1;                    // -1: rank 0 could not list them
  CheckpointName names[kCandidatesMax];  // the latest first
};

bool IsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) || ResultOf(status) == WEFT_CORRUPT ||
         ResultOf(status) == WEFT_SYSTEM_ERROR;
}

absl::Status ListOnRank0(Files& files, const LoadRequest& request, CandidateList* list) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, request.root));
  list->count = 0;
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    const bool may_be_one = entry->committed || entry->unreadable;
    if (!may_be_one || (request.step >= 0 && entry->name.step != request.step)) continue;
    if (list->count == kCandidatesMax) break;
    list->names[list->count++] = entry->name;
  }
  return absl::OkStatus();
}

absl::StatusOr<CandidateList> AgreeOnCandidates(ProcessGroup& group, Files& files,
                                                const LoadRequest& request) {
  CandidateList list;
  absl::Status listed;
  if (group.rank() == 0) listed = ListOnRank0(files, request, &list);
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kBroadcast,
                                  .dtype = WEFT_UINT8,
                                  .count = sizeof(list),
                                  .in = &list,
                                  .out = &list,
                                  .timeout_ns = request.timeout_ns}));
  WEFT_RETURN_IF_ERROR(listed);
  if (list.count < 0) {
    return MakeError(WEFT_SYSTEM_ERROR, {.rank = 0},
                     StrCat("rank 0 could not list the checkpoints in ", request.root));
  }
  return list;
}

class Attempt {
 public:
  Attempt(ProcessGroup& group, Files& files, const std::vector<NamedSource>& sources,
          const LoadRequest& request, std::string path)
      : group_(group),
        files_(files),
        sources_(sources),
        request_(request),
        path_(std::move(path)) {}

  // Ok: all ranks have loaded it. Else *damaged says whether an earlier one may do.
  absl::Status Run(bool* damaged) {
    WEFT_RETURN_IF_ERROR(AgreeOn(Open(), damaged));
    WEFT_RETURN_IF_ERROR(CheckNothingIsLeft(damaged));
    bool source_failed = false;
    const absl::Status restored = Restore(*saved_, sources_, request_.kinds, &source_failed);
    return AgreeOn(restored, damaged, source_failed);
  }

  SavedCheckpoint Take() { return *std::move(saved_); }

 private:
  absl::Status Open() {
    absl::StatusOr<SavedCheckpoint> saved = SavedCheckpoint::Open(files_, path_);
    WEFT_RETURN_IF_ERROR(saved.status());
    saved_ = *std::move(saved);
    WEFT_RETURN_IF_ERROR(CheckFits(*saved_, sources_, request_.kinds));
    if (!request_.check) return absl::OkStatus();
    // Whatever its reason: that is no damage.
    const absl::Status checked = request_.check(*saved_);
    return checked.ok() ? checked : MakeError(WEFT_INVALID_ARGUMENT, FromAbsl(checked.message()));
  }

  // All ranks return the same outcome; this rank's own words, or those of the first that fared worst.
  absl::Status AgreeOn(const absl::Status& own, bool* damaged, bool source_failed = false) {
    *damaged = false;
    const Outcome outcome = own.ok()        ? Outcome::kGood
                            : source_failed ? Outcome::kNotTaken
                            : IsDamage(own) ? Outcome::kDamaged
                                            : Outcome::kRefused;
    WEFT_ASSIGN_OR_RETURN(const std::vector<Outcome> all,
                          GatherValue(group_, outcome, request_.timeout_ns));
    const auto worst = std::max_element(all.begin(), all.end());
    if (*worst == Outcome::kGood) return absl::OkStatus();
    *damaged = *worst == Outcome::kDamaged;
    const auto rank = static_cast<size_t>(worst - all.begin());
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          GatherText(group_, FromAbsl(own.message()), request_.timeout_ns));
    if (outcome == *worst) return own;
    const weft_result_t result = *worst == Outcome::kNotTaken ? WEFT_REMOTE_ERROR
                                 : *damaged                   ? WEFT_CORRUPT
                                                              : WEFT_INVALID_ARGUMENT;
    return MakeError(result, {.rank = static_cast<int32_t>(rank)},
                     StrCat("rank ", rank, ": ", texts[rank]));
  }

  // A tensor that no rank takes: dropped without a word, it would be missed later.
  absl::Status CheckNothingIsLeft(bool* damaged) {
    if (!request_.whole) return absl::OkStatus();
    std::vector<uint8_t> wanted = WantedTensors(*saved_, sources_);
    WEFT_RETURN_IF_ERROR(group_.Run({.kind = OpKind::kAllReduce,
                                     .dtype = WEFT_UINT8,
                                     .op = WEFT_BIT_OR,
                                     .count = wanted.size(),
                                     .in = wanted.data(),
                                     .out = wanted.data(),
                                     .timeout_ns = request_.timeout_ns}));
    *damaged = false;
    const std::vector<SavedTensor>& tensors = saved_->manifest().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if ((wanted[i / 8] >> i % 8 & 1) != 0) continue;
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("the checkpoint ", path_, " has tensor ", tensors[i].name,
                              ", of shape ", ShapeText(tensors[i].shape),
                              ", which this program has not; it is of another model"));
    }
    return absl::OkStatus();
  }

  ProcessGroup& group_;
  Files& files_;
  const std::vector<NamedSource>& sources_;
  const LoadRequest& request_;
  const std::string path_;
  std::optional<SavedCheckpoint> saved_;
};

}  // namespace

absl::StatusOr<SavedCheckpoint> LoadCheckpoint(ProcessGroup& group, Files& files,
                                               const std::vector<NamedSource>& sources,
                                               const LoadRequest& request) {
  WEFT_ASSIGN_OR_RETURN(const CandidateList list, AgreeOnCandidates(group, files, request));
  if (list.count == 0) {
    return absl::NotFoundError(request.step < 0 ? StrCat("there is no checkpoint in ", request.root)
                                                : StrCat("there is no checkpoint of step ",
                                                         request.step, " in ", request.root));
  }
  absl::Status last;
  for (int64_t i = 0; i < list.count; ++i) {
    const std::string path = JoinPath(request.root, DirectoryName(list.names[i]));
    Attempt attempt(group, files, sources, request, path);
    bool damaged = false;
    last = attempt.Run(&damaged);
    if (last.ok()) return attempt.Take();
    if (!damaged) return last;
    if (i + 1 == list.count) break;
    LogWarn("checkpoint ", path,
            " cannot be loaded; trying the one before: ", FromAbsl(last.message()));
  }
  return MakeError(WEFT_CORRUPT,
                   StrCat("none of the ", list.count, " checkpoints in ", request.root,
                          " is whole (weftctl checkpoint verify ", request.root,
                          " reads them all); the earliest: ", FromAbsl(last.message())));
}

}  // namespace weft
