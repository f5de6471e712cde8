// What is read is only believed as far as its own header goes: such files have no checksums. From here on they do.
#include "shard/checkpoint/tensor_import.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/committer.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/tensor_export.h"

namespace weft {
namespace {

// A safetensors file with its header read.
struct TensorFile {
  std::string path;
  std::unique_ptr<ReadableFile> file;
  SafetensorsLayout layout;
};

absl::StatusOr<SafetensorsLayout> ReadLayout(ReadableFile& file) {
  WEFT_ASSIGN_OR_RETURN(const size_t bytes, file.Size());
  std::string header(std::min(bytes, kSafetensorsLengthBytes), '\0');
  WEFT_RETURN_IF_ERROR(file.ReadAt(0, header.data(), header.size()));
  WEFT_ASSIGN_OR_RETURN(const size_t header_bytes, SafetensorsHeaderBytes(header, bytes));
  header.resize(header_bytes);
  WEFT_RETURN_IF_ERROR(file.ReadAt(0, header.data(), header.size()));
  return ReadSafetensorsHeader(header, bytes);
}

absl::StatusOr<TensorFile> OpenTensorFile(Files& files, const std::string& path) {
  TensorFile opened{.path = path};
  WEFT_ASSIGN_OR_RETURN(opened.file, files.Open(path));
  absl::StatusOr<SafetensorsLayout> layout = ReadLayout(*opened.file);
  if (!layout.ok())
    return Annotate(layout.status(), StrCat(path, " cannot be read as safetensors: "));
  opened.layout = *std::move(layout);
  return opened;
}

// What the one rank writes, and, of each entry, the tensor that it is of.
struct ImportPlan {
  Snapshot snapshot;
  std::vector<const SafetensorsEntry*> from;
};

ImportPlan PlanImport(const SafetensorsLayout& layout) {
  ImportPlan plan;
  std::vector<const SafetensorsEntry*> with_elements;
  for (const SafetensorsEntry& entry : layout.entries) {
    SavedTensor tensor{.name = entry.name,
                       .shape = entry.shape,
                       .dtype = entry.dtype,
                       .kinds = WEFT_SHARD_STATE_VALUES};
    if (tensor.count() > 0) {
      const size_t count = tensor.count();
      tensor.cuts = {{.begin = 0, .end = count}};
      plan.snapshot.entries.push_back(
          {.name = EntryName(entry.name, WEFT_SHARD_STATE_VALUE, 0, count),
           .dtype = entry.dtype,
           .shape = {static_cast<int64_t>(count)}});
      with_elements.push_back(&entry);
    }
    plan.snapshot.tensors.push_back(std::move(tensor));
  }
  for (const size_t i : PlaceEntries(&plan.snapshot.entries))
    plan.from.push_back(with_elements[i]);
  return plan;
}

absl::Status CopyEntries(const TensorFile& from, const ImportPlan& plan, const BytesDone& done,
                         ChunkWriter* writer) {
  std::vector<char> piece(std::min(plan.snapshot.data_bytes(), kPieceBytes));
  for (const SafetensorsEntry* const entry : plan.from) {
    for (size_t begin = entry->begin; begin < entry->end;) {
      const size_t bytes = std::min(entry->end - begin, piece.size());
      WEFT_RETURN_IF_ERROR(from.file->ReadAt(from.layout.data_begin + begin, piece.data(), bytes));
      WEFT_RETURN_IF_ERROR(writer->Append(piece.data(), bytes));
      begin += bytes;
      if (done) done(bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status WriteCheckpoint(Files& files, const CheckpointPlace& place, const TensorFile& from,
                             const BytesDone& done) {
  const ImportPlan plan = PlanImport(from.layout);
  WEFT_RETURN_IF_ERROR(BeginCheckpoint(files, place));
  WEFT_RETURN_IF_ERROR(WriteRank(files, place, plan.snapshot, [&](ChunkWriter& writer) {
    return CopyEntries(from, plan, done, &writer);
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

absl::StatusOr<std::string> ImportTensors(Files& files, const std::string& file,
                                          const std::string& root, int64_t step,
                                          const BytesDone& done) {
  if (step < 0 || step > kCheckpointStepMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("a checkpoint of step ", step, " was asked for; steps are 0 to 2^53"));
  }
  WEFT_ASSIGN_OR_RETURN(const TensorFile from, OpenTensorFile(files, file));
  WEFT_ASSIGN_OR_RETURN(const std::vector<CatalogEntry> all, ListCheckpoints(files, root));
  CheckpointPlace place{.root = root, .name = {.run = NextRun(all), .step = step}};
  WEFT_RETURN_IF_ERROR(SystemSeams().random->Fill(&place.job, sizeof(place.job)));
  // What is removed after an error must be of this call alone; a list may lack what could not be looked at.
  const absl::Status there = files.List(place.path()).status();
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
