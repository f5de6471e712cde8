// Records are read as they come; the manifest is made of them alone. Its order is that of ranks, so the same state gives the same text.
#include "shard/checkpoint/committer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

// What `rank` has of a tensor is added to what is known of it.
absl::Status AddCuts(const SavedTensor& own, int rank, SavedTensor* tensor) {
  if (own.shape != tensor->shape || own.dtype != tensor->dtype || own.kinds != tensor->kinds ||
      own.frozen != tensor->frozen || own.optimizer != tensor->optimizer) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("tensor ", own.name, " is another one on rank ", rank, ", with shape ",
                            ShapeText(own.shape), ", than on ranks before it, with shape ",
                            ShapeText(tensor->shape),
                            ", or has another type, another optimizer or other state of it"));
  }
  tensor->cuts.insert(tensor->cuts.end(), own.cuts.begin(), own.cuts.end());
  return absl::OkStatus();
}

}  // namespace

Committer::Committer(Files& files, CheckpointPlace place)
    : files_(files), place_(std::move(place)), seen_(static_cast<size_t>(place_.ranks)) {}

absl::Status Committer::Take(int rank, const std::string& text) {
  WEFT_ASSIGN_OR_RETURN(RankRecord record, ReadRecord(RecordName(rank), text));
  if (record.job != place_.job || record.step != place_.name.step || record.rank != rank ||
      record.ranks != place_.ranks) {
    return MakeError(WEFT_BAD_STATE,
                     StrCat(place_.PathOf(RecordName(rank)),
                            " is of another run; two runs must not save in one directory"));
  }
  seen_[static_cast<size_t>(rank)] = Seen{std::move(record), SealedFileOf(text)};
  return absl::OkStatus();
}

absl::StatusOr<bool> Committer::Look() {
  // One call for all ranks; in order.
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(place_.path()));
  const auto is_there = [&](const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  bool complete = true;
  for (int rank = 0; rank < place_.ranks; ++rank) {
    if (seen_[static_cast<size_t>(rank)]) continue;
    if (is_there(FailureName(rank))) WEFT_RETURN_IF_ERROR(FailureOf(files_, place_, rank));
    if (!is_there(RecordName(rank))) {
      complete = false;
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(
        const std::string text,
        ReadWholeFile(files_, place_.PathOf(RecordName(rank)), kCheckpointTextMax));
    WEFT_RETURN_IF_ERROR(Take(rank, text));
  }
  return complete;
}

std::string Committer::Missing() const {
  std::vector<int> missing;
  for (int rank = 0; rank < place_.ranks; ++rank) {
    if (!seen_[static_cast<size_t>(rank)]) missing.push_back(rank);
  }
  return RankList(missing);
}

absl::StatusOr<Manifest> Committer::Merge() {
  Manifest manifest{.job = place_.job, .step = place_.name.step, .ranks = place_.ranks};
  std::unordered_map<std::string, size_t> places;
  for (const std::optional<Seen>& seen : seen_) {
    const RankRecord& record = seen->record;
    manifest.records.push_back(seen->file);
    for (const SavedTensor& tensor : record.tensors) {
      const auto [place, added] = places.emplace(tensor.name, manifest.tensors.size());
      if (added)
        manifest.tensors.push_back(tensor);
      else
        WEFT_RETURN_IF_ERROR(AddCuts(tensor, record.rank, &manifest.tensors[place->second]));
    }
    manifest.scalars.insert(record.scalars.begin(), record.scalars.end());
    manifest.optimizers.insert(record.optimizers.begin(), record.optimizers.end());
    manifest.values.insert(manifest.values.end(), record.values.begin(), record.values.end());
  }
  for (SavedTensor& tensor : manifest.tensors) {
    std::sort(tensor.cuts.begin(), tensor.cuts.end(), [](const TensorCut& a, const TensorCut& b) {
      return std::pair(a.begin, a.rank) < std::pair(b.begin, b.rank);
    });
    const size_t missing = FirstMissing(tensor);
    if (missing < tensor.count()) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("no rank has written element ", missing, " of tensor ", tensor.name,
                              ", which has ", tensor.count(),
                              "; add what has it to the checkpoint, on the rank that has it"));
    }
  }
  return manifest;
}

absl::Status Committer::Commit(std::string_view config) {
  WEFT_ASSIGN_OR_RETURN(Manifest manifest, Merge());
  if (!config.empty()) {
    WEFT_RETURN_IF_ERROR(WriteFileAtomically(files_, place_.PathOf(kConfigName), config));
    manifest.config = SealedFileOf(config);
  }
  const std::string text = ManifestText(manifest);
  // As whoever loads it will: each rank's part may be within the limits, and all of them together not.
  const absl::Status read = ReadManifest(kManifestName, text).status();
  if (!read.ok()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the ", place_.ranks,
                            " ranks together have more than a checkpoint can "
                            "have, and it was not committed: ",
                            FromAbsl(read.message())));
  }
  may_be_committed_ = true;
  // Whoever sees the manifest sees all else: each rank's files and record were durable before they were seen here.
  WEFT_RETURN_IF_ERROR(WriteFileAtomically(files_, place_.PathOf(kManifestName), text));
  WEFT_RETURN_IF_ERROR(files_.SyncDirectory(place_.root));
  // The directory of all checkpoints may be new itself.
  WEFT_RETURN_IF_ERROR(files_.SyncDirectory(ParentDirectory(place_.root)));
  const absl::Status tidied = files_.Remove(place_.PathOf(JobFileName(place_.job)));
  if (!tidied.ok()) LogDebug("checkpoint: ", FromAbsl(tidied.message()));
  return absl::OkStatus();
}

}  // namespace weft
