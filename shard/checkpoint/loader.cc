// Rank 0 lists the directory and the others go by its list: a file system may show them a change later. One all_gather of a word per
// checkpoint that is tried tells whether all ranks have it.
#include "shard/checkpoint/loader.h"

#include <algorithm>
#include <optional>
#include <set>
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
// So often a directory that changes meanwhile, and shows no checkpoint, is listed.
constexpr int kLooksMax = 100;

// How a rank has fared with a checkpoint; the worst counts.
enum class Outcome : int32_t {
  kGood = 0,
  kDamaged = 1,
  kUnreadable = 2,  // it may be whole: a disk that fails, a user who may not
  kRefused = 3,
  kNotTaken = 4
};

bool MayAnotherDo(Outcome outcome) {
  return outcome == Outcome::kDamaged || outcome == Outcome::kUnreadable;
}

Outcome OutcomeOf(const absl::Status& own, bool source_failed) {
  if (own.ok()) return Outcome::kGood;
  if (source_failed) return Outcome::kNotTaken;
  if (absl::IsNotFound(own) || ResultOf(own) == WEFT_CORRUPT) return Outcome::kDamaged;
  return ResultOf(own) == WEFT_SYSTEM_ERROR ? Outcome::kUnreadable : Outcome::kRefused;
}

weft_result_t ResultOfOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGood:
      return WEFT_SUCCESS;
    case Outcome::kDamaged:
      return WEFT_CORRUPT;
    case Outcome::kUnreadable:
      return WEFT_SYSTEM_ERROR;
    case Outcome::kRefused:
      return WEFT_INVALID_ARGUMENT;
    case Outcome::kNotTaken:
      return WEFT_REMOTE_ERROR;
  }
  return WEFT_INTERNAL_ERROR;
}

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

absl::StatusOr<std::vector<std::string>> NamesIn(Files& files, const std::string& path) {
  auto names = files.List(path);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

// Of checkpoints: beside them a lock may beat.
absl::StatusOr<std::vector<std::string>> CheckpointNamesIn(Files& files, const std::string& root) {
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(files, root));
  std::erase_if(names, [](const std::string& name) { return !ParseDirectoryName(name); });
  return names;
}

// A run that keeps one checkpoint removes it once the next is committed: between two looks both may have been out of sight. So none is there only if the
// directory stayed as it was while it was looked at.
absl::StatusOr<std::vector<CatalogEntry>> ListSettled(Files& files, const std::string& root) {
  for (int looks = 0;; ++looks) {
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> before, CheckpointNamesIn(files, root));
    WEFT_ASSIGN_OR_RETURN(std::vector<CatalogEntry> all, ListCheckpoints(files, root));
    const bool seen = std::any_of(all.begin(), all.end(), [](const CatalogEntry& entry) {
      return entry.committed || entry.unreadable;
    });
    if (seen || looks == kLooksMax) return all;
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> after, CheckpointNamesIn(files, root));
    if (before == after) return all;
  }
}

// The directory itself, or others' files.
void TakeItself(Files& files, const LoadRequest& request, CandidateList* list) {
  // One that may not be read is none that is not there.
  if (!absl::IsNotFound(files.Open(JoinPath(request.root, kManifestName)).status())) {
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
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListSettled(files, request.root));
  list->count = 0;
  bool any = false;
  for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
    if (!entry->committed && !entry->unreadable) continue;
    any = true;
    if (request.step >= 0 && entry->name.step != request.step) continue;
    if (list->count == kCandidatesMax) break;
    list->names[list->count++] = entry->name;
  }
  if (!any) TakeItself(files, request, list);
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

  // Ok: all ranks have loaded it. Else *outcome says whether another one may do.
  absl::Status Run(Outcome* outcome) {
    WEFT_RETURN_IF_ERROR(AgreeOn(Open(), outcome));
    WEFT_RETURN_IF_ERROR(CheckNothingIsLeft(outcome));
    bool source_failed = false;
    const absl::Status restored =
        Restore(*saved_, sources_, request_.kinds, &source_failed, request_.rules);
    return AgreeOn(restored, outcome, source_failed);
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
    // The directory may be called by another step.
    if (request_.step >= 0 && saved_->manifest().step != request_.step) {
      return MakeError(
          WEFT_INVALID_ARGUMENT,
          StrCat("the checkpoint ", path_, " is of step ", saved_->manifest().step, ", and step ",
                 request_.step, " was asked for; was its directory renamed?"));
    }
    return request_.check ? request_.check(*saved_) : absl::OkStatus();
  }

  // All ranks return the same outcome; this rank's own words, or those of the first that fared worst.
  absl::Status AgreeOn(const absl::Status& own, Outcome* outcome, bool source_failed = false) {
    const Outcome of_this_rank = OutcomeOf(own, source_failed);
    *outcome = Outcome::kRefused;
    WEFT_ASSIGN_OR_RETURN(const std::vector<Outcome> all,
                          GatherValue(group_, of_this_rank, request_.timeout_ns));
    const auto worst = std::max_element(all.begin(), all.end());
    *outcome = *worst;
    if (*worst == Outcome::kGood) return absl::OkStatus();
    const auto rank = static_cast<size_t>(worst - all.begin());
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          GatherText(group_, FromAbsl(own.message()), request_.timeout_ns));
    if (of_this_rank == *worst) return own;
    return MakeError(ResultOfOutcome(*worst), {.rank = static_cast<int32_t>(rank)},
                     StrCat("rank ", rank, ": ", texts[rank]));
  }

  // A tensor that no rank takes: dropped without a word, it would be missed later. Those that may be dropped are kept in mind.
  absl::Status CheckNothingIsLeft(Outcome* outcome) {
    std::vector<uint8_t> wanted = WantedTensors(*saved_, sources_, request_.rules);
    WEFT_RETURN_IF_ERROR(group_.Run({.kind = OpKind::kAllReduce,
                                     .dtype = WEFT_UINT8,
                                     .op = WEFT_BIT_OR,
                                     .count = wanted.size(),
                                     .in = wanted.data(),
                                     .out = wanted.data(),
                                     .timeout_ns = request_.timeout_ns}));
    *outcome = Outcome::kRefused;
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
  std::set<std::string> tried;
  Outcome worst = Outcome::kDamaged;  // of these
  absl::Status last;
  std::string before;
  // The same on all ranks: they go by rank 0's list.
  while (tried.size() < kCandidatesMax) {
    WEFT_ASSIGN_OR_RETURN(const CandidateList list, AgreeOnCandidates(group, files, request));
    std::string path;
    for (int64_t i = 0; i < list.count && path.empty(); ++i) {
      std::string candidate = list.where == Where::kListed
                                  ? JoinPath(request.root, DirectoryName(list.names[i]))
                                  : request.root;
      if (tried.insert(candidate).second) path = std::move(candidate);
    }
    if (path.empty()) break;
    if (!last.ok()) {
      LogWarn("checkpoint ", before, " cannot be loaded; trying ", path,
              " instead: ", FromAbsl(last.message()));
    }
    Attempt attempt(group, files, sources, request, path, list.where);
    Outcome outcome = Outcome::kRefused;
    last = attempt.Run(&outcome);
    if (last.ok()) {
      if (left != nullptr) *left = attempt.TakeLeft();
      return attempt.Take();
    }
    if (!MayAnotherDo(outcome)) return last;
    // Where there is no other; that one of its files is missing does not say that there was none.
    if (list.where != Where::kListed && !absl::IsNotFound(last)) return last;
    worst = std::max(worst, outcome);
    before = path;
  }
  if (tried.empty()) {
    return absl::NotFoundError(request.step < 0 ? StrCat("there is no checkpoint in ", request.root)
                                                : StrCat("there is no checkpoint of step ",
                                                         request.step, " in ", request.root));
  }
  const bool damaged = worst == Outcome::kDamaged;
  return MakeError(
      ResultOfOutcome(worst),
      StrCat("none of the ", tried.size(), " checkpoints in ", request.root,
             damaged ? " is whole" : " could be read", " (weftctl checkpoint verify ", request.root,
             " reads them all); the last that was tried: ", FromAbsl(last.message())));
}

}  // namespace weft
