// Others' files have no checksums: what is read is only believed as far as their headers go. From here on it has some.
#include "shard/checkpoint/tensor_import.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/value_copy.h"

namespace weft {
namespace {

constexpr size_t kMetadataBytesMax = 16 << 20;

// What the one rank writes, and, of each entry, the tensor that it is of.
struct ImportPlan {
  Snapshot snapshot;
  std::vector<size_t> from;
};

ImportPlan PlanImport(const Manifest& others) {
  ImportPlan plan;
  plan.snapshot.values = others.values;
  std::vector<size_t> with_elements;
  for (size_t i = 0; i < others.tensors.size(); ++i) {
    SavedTensor tensor = others.tensors[i];
    for (TensorCut& cut : tensor.cuts)
      cut.rank = 0;
    if (const size_t count = tensor.count(); count > 0) {
      plan.snapshot.entries.push_back(
          {.name = EntryName(tensor.name, WEFT_SHARD_STATE_VALUE, 0, count),
           .dtype = tensor.dtype,
           .shape = {static_cast<int64_t>(count)}});
      with_elements.push_back(i);
    }
    plan.snapshot.tensors.push_back(std::move(tensor));
  }
  for (const size_t i : PlaceEntries(&plan.snapshot.entries))
    plan.from.push_back(with_elements[i]);
  return plan;
}

absl::Status WriteCheckpoint(Files& files, const CheckpointPlace& place,
                             const SavedCheckpoint& from, const BytesDone& done) {
  const ImportPlan plan = PlanImport(from.manifest());
  WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
  WEFT_RETURN_IF_ERROR(WriteRank(files, place, plan.snapshot, [&](ChunkWriter& writer) {
    const auto append = [&](const void* bytes, size_t count) {
      return writer.Append(bytes, count);
    };
    ValueCopy copy(from, plan.snapshot.data_bytes(), append, done);
    for (const size_t tensor : plan.from)
      WEFT_RETURN_IF_ERROR(copy.Add(tensor));
    return copy.Flush();
  }));
  Committer committer(files, place);
  WEFT_ASSIGN_OR_RETURN(const bool complete, committer.Look());
  if (!complete) {
    return MakeError(WEFT_SYSTEM_ERROR,
                     StrCat(place.PathOf(RecordName(place.rank)),
                            " was written, and is not there; does something remove files there?"));
  }
  return committer.Commit("");
}

}  // namespace

absl::StatusOr<std::string> ImportTensors(Files& files, TensorFiles others, const std::string& root,
                                          int64_t step, const BytesDone& done) {
  if (step < 0 || step > kCheckpointStepMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("a checkpoint of step ", step, " was asked for; steps are 0 to 2^53"));
  }
  const SavedCheckpoint from = SavedCheckpoint::Of(files, std::move(others));
  for (const SavedValue& metadata : from.manifest().values) {
    if (metadata.bytes.size() <= kMetadataBytesMax) continue;
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(from.path(), " has ", metadata.bytes.size(), " bytes of ",
                            metadata.name, "; up to ", kMetadataBytesMax, " are kept"));
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, root));
  CheckpointPlace place{.root = root, .name = {.run = NextRun(all), .step = step}};
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(&place.job, sizeof(place.job)));
  // What is removed after an error must be of this call alone; a list may lack what could not be looked at.
  absl::Status there = files.List(place.path()).status();
  if (there.ok()) {
    return MakeError(WEFT_BAD_STATE,
                     StrCat(place.path(), " exists already; does another run save there?"));
  }
  if (!absl::IsNotFound(there)) return there;
  const absl::Status written = WriteCheckpoint(files, place, from, done);
  if (written.ok()) return place.path();
  const absl::Status removed = RemoveCheckpoint(files, root, place.name);
  if (!removed.ok() && !absl::IsNotFound(removed))
    LogWarn("checkpoint: what was begun in ", place.path(),
            " is left there: ", FromAbsl(removed.message()));
  return written;
}

}  // namespace weft
