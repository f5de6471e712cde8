#include "shard/checkpoint/model_copy.h"

#include <memory>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/found_checkpoints.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/tensor_import.h"

namespace weft {
namespace {

BytesDone Begin(const BeginBytes& begin, size_t total_bytes) {
  return begin == nullptr ? nullptr : begin(total_bytes);
}

absl::StatusOr<ModelCopy> ExportOne(Files& files, const std::string& checkpoint,
                                    const ExportRequest& request, const BeginBytes& begin) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SavedCheckpoint::Open(files, checkpoint));
  WEFT_ASSIGN_OR_RETURN(const ExportSize size, SizeOfExport(saved, request.rules));
  ModelCopy copy{.checkpoint = checkpoint,
                 .step = saved.manifest().step,
                 .tensors = size.tensors,
                 .bytes = size.bytes};
  const BytesDone done = Begin(begin, copy.bytes);
  if (request.shard_bytes == 0) {
    WEFT_RETURN_IF_ERROR(ExportTensors(saved, files, request.to, done, request.rules));
    copy.files = {request.to};
    return copy;
  }
  WEFT_ASSIGN_OR_RETURN(
      copy.files, ExportShards(saved, files, request.to, request.shard_bytes, done, request.rules));
  return copy;
}

}  // namespace

absl::StatusOr<ModelCopy> ExportModel(Files& files, const ExportRequest& request,
                                      const BeginBytes& begin) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, CommittedAt(files, request.from));
  // Where nothing can be written no checkpoint is to blame.
  WEFT_RETURN_IF_ERROR(files.List(ParentDirectory(request.to)).status());
  for (auto one = found.rbegin();; ++one) {
    absl::StatusOr<ModelCopy> copy = ExportOne(files, one->path, request, begin);
    if (copy.ok() || !IsDamaged(copy.status()) || one + 1 == found.rend()) return copy;
    LogWarn("checkpoint ", one->path,
            " is damaged; trying the one before: ", FromAbsl(copy.status().message()));
  }
}

absl::StatusOr<ModelCopy> ImportModel(Files& files, const ImportRequest& request,
                                      const BeginBytes& begin) {
  WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(files, request.from));
  ModelCopy copy{.step = request.step};
  for (const TensorFile& file : others.files) {
    copy.files.push_back(file.path);
    copy.tensors += file.layout.entries.size();
    copy.bytes += file.bytes - file.layout.data_begin;
  }
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<DirectoryLock> lock,
                        LockDirectory(files, request.directory));
  WEFT_ASSIGN_OR_RETURN(copy.checkpoint, ImportTensors(files, std::move(others), request.directory,
                                                       request.step, Begin(begin, copy.bytes)));
  return copy;
}

}  // namespace weft
