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
#include "shard/checkpoint/tensor_files.h"
#include "shard/checks/agreement.h"

namespace weft {
namespace {

// So many are tried.
constexpr size_t kCandidatesMax = 64;

// How a rank has fared with a checkpoint; the worst counts.
enum class Outcome : int32_t { kGood = 0, kDamaged = 1, kRefused = 2, kNotTaken = 3 };

// What stands where a checkpoint is looked for.
enum class Where : int64_t {
  kListed,  // checkpoints by their names
  kItself,  // one, whatever it is called
  kOthers   // others' files of tensors
};

struct CandidateList {
  int64_t count = -1;  // -1: rank 0 could not list them
  Where where = Where::kListed;
  CheckpointName names[kCandidatesMax];  // the latest first
};

bool IsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) || ResultOf(status) == WEFT_CORRUPT ||
         ResultOf(status) == WEFT_SYSTEM_ERROR;
}

// The directory itself, or others' files.
void TakeItself(Files& files, const LoadRequest& request, CandidateList* list) {
  if (files.Open(JoinPath(request.root, kManifestName)).ok()) {
    *list = {.count = 1, .where = Where::kItself};
  } else if (request.others && HasTensorFiles(files, request.root)) {
    *list = {.count = 1, .where = Where::kOthers};
  }
}

absl::Status ListOnRank0(Files& files, const LoadRequest& request, CandidateList* list) {
  if (request.others && files.Open(request.root).ok()) {
    *list = {.count = 1, .where = Where::kOthers};
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, request.root));
  list->count = 0;
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    const bool may_be_one = entry->committed || entry->unreadable;
    if (!may_be_one || (request.step >= 0 && entry->name.step != request.step)) continue;
    if (list->count == kCandidatesMax) break;
    list->names[list->count++] = entry->name;
  }
  if (all.empty()) TakeItself(files, request, list);
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
          const LoadRequest& request, std::string path, Where where)
      : group_(group),
        files_(files),
        sources_(sources),
        request_(request),
        path_(std::move(path)),
        where_(where) {}

  // Ok: all ranks have loaded it. Else *damaged says whether an earlier one may do.
  absl::Status Run(bool* damaged) {
    WEFT_RETURN_IF_ERROR(AgreeOn(Open(), damaged));
    WEFT_RETURN_IF_ERROR(CheckNothingIsLeft(damaged));
    bool source_failed = false;
    const absl::Status restored =
        Restore(*saved_, sources_, request_.kinds, &source_failed, request_.rules);
    return AgreeOn(restored, damaged, source_failed);
  }

  SavedCheckpoint Take() { return *std::move(saved_); }

  LeftTensors TakeLeft() {
    return {std::move(unused_), KeptTensors(*saved_, sources_, request_.rules)};
  }

 private:
  absl::StatusOr<SavedCheckpoint> OpenSaved() const {
    if (where_ != Where::kOthers) return SavedCheckpoint::Open(files_, path_);
    if (request_.kinds != WEFT_SHARD_STATE_VALUES || request_.step >= 0) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat(path_,
                              " has tensors' values alone, and is of no step; load values "
                              "only (WEFT_CHECKPOINT_VALUES_ONLY)"));
    }
    WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(files_, path_));
    return SavedCheckpoint::Of(files_, std::move(others));
  }

  absl::Status Open() {
    absl::StatusOr<SavedCheckpoint> saved = OpenSaved();
    WEFT_RETURN_IF_ERROR(saved.status());
    saved_ = *std::move(saved);
    WEFT_RETURN_IF_ERROR(CheckFits(*saved_, sources_, request_.kinds, request_.rules));
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

  // A tensor that no rank takes: dropped without a word, it would be missed later. Those that may be dropped are kept in mind.
  absl::Status CheckNothingIsLeft(bool* damaged) {
    std::vector<uint8_t> wanted = WantedTensors(*saved_, sources_, request_.rules);
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
      if (!request_.whole) {
        unused_.push_back(tensors[i].name);
        continue;
      }
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
  const Where where_;
  std::optional<SavedCheckpoint> saved_;
  std::vector<std::string> unused_;
};

}  // namespace

absl::StatusOr<SavedCheckpoint> LoadCheckpoint(ProcessGroup& group, Files& files,
                                               const std::vector<NamedSource>& sources,
                                               const LoadRequest& request, LeftTensors* left) {
  WEFT_ASSIGN_OR_RETURN(const CandidateList list, AgreeOnCandidates(group, files, request));
  if (list.count == 0) {
    return absl::NotFoundError(request.step < 0 ? StrCat("there is no checkpoint in ", request.root)
                                                : StrCat("there is no checkpoint of step ",
                                                         request.step, " in ", request.root));
  }
  absl::Status last;
  for (int64_t i = 0; i < list.count; ++i) {
    const std::string path = list.where == Where::kListed
                                 ? JoinPath(request.root, DirectoryName(list.names[i]))
                                 : request.root;
    Attempt attempt(group, files, sources, request, path, list.where);
    bool damaged = false;
    last = attempt.Run(&damaged);
    if (last.ok()) {
      if (left != nullptr) *left = attempt.TakeLeft();
      return attempt.Take();
    }
    if (!damaged || list.where != Where::kListed) return last;
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
