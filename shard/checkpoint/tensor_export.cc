// Pieces are of as many tensors as fit, so that small ones cost no read each.
#include "shard/checkpoint/tensor_export.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {
namespace {

struct ExportPlan {
  std::vector<SafetensorsEntry> entries;
  std::vector<size_t> tensors;  // of each entry, its place in the manifest

  size_t bytes() const { return entries.empty() ? 0 : entries.back().end; }
};

absl::StatusOr<ExportPlan> PlanExport(const SavedCheckpoint& saved) {
  ExportPlan plan;
  std::unordered_set<std::string> names;
  for (const SavedTensor& tensor : saved.manifest().tensors) {
    if (!tensor.Has(WEFT_SHARD_STATE_VALUE) || !names.insert(tensor.name).second) {
      return MakeError(WEFT_CORRUPT, StrCat("the checkpoint ", saved.path(), " has tensor ",
                                            tensor.name, " twice, or without values"));
    }
    plan.entries.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  plan.tensors = PlaceEntries(&plan.entries);
  return plan;
}

// Gathers what is asked for until a piece is full, then reads and writes it.
class PieceCopy {
 public:
  PieceCopy(const SavedCheckpoint& saved, WritableFile& file, size_t bytes, const BytesDone& done)
      : saved_(saved), file_(file), done_(done), room_(std::min(bytes, kPieceBytes)) {
    piece_ = std::make_unique<char[]>(room_);
  }

  absl::Status Add(size_t index) {
    const SavedTensor& tensor = saved_.manifest().tensors[index];
    const size_t element = DtypeSize(tensor.dtype);
    for (size_t begin = 0; begin < tensor.count();) {
      const size_t count = std::min(tensor.count() - begin, (room_ - used_) / element);
      if (count == 0) {
        WEFT_RETURN_IF_ERROR(Flush());
        continue;
      }
      wanted_.push_back({.tensor = index,
                         .kind = WEFT_SHARD_STATE_VALUE,
                         .begin = begin,
                         .count = count,
                         .to = &piece_[used_]});
      begin += count;
      used_ += count * element;
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    WEFT_RETURN_IF_ERROR(saved_.Read(wanted_));
    WEFT_RETURN_IF_ERROR(file_.Write(piece_.get(), used_));
    if (done_) done_(used_);
    wanted_.clear();
    used_ = 0;
    return absl::OkStatus();
  }

 private:
  const SavedCheckpoint& saved_;
  WritableFile& file_;
  const BytesDone& done_;
  const size_t room_;  // at least an element: all bytes are no more, or it is a piece
  std::unique_ptr<char[]> piece_;
  size_t used_ = 0;
  std::vector<WantedPart> wanted_;
};

}  // namespace

size_t ValueBytes(const Manifest& manifest) {
  size_t bytes = 0;
  for (const SavedTensor& tensor : manifest.tensors)
    bytes += tensor.count() * DtypeSize(tensor.dtype);
  return bytes;
}

absl::Status ExportTensors(const SavedCheckpoint& saved, Files& files, const std::string& file,
                           const BytesDone& done) {
  const absl::Status there = files.Open(file).status();
  if (there.ok()) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(file, " exists already; choose another name, or remove it"));
  }
  if (!absl::IsNotFound(there)) return there;
  WEFT_ASSIGN_OR_RETURN(const ExportPlan plan, PlanExport(saved));
  WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(plan.entries));
  return WriteFileAtomically(files, file, header.size() + plan.bytes(), [&](WritableFile& to) {
    WEFT_RETURN_IF_ERROR(to.Write(header.data(), header.size()));
    PieceCopy copy(saved, to, plan.bytes(), done);
    for (const size_t index : plan.tensors)
      WEFT_RETURN_IF_ERROR(copy.Add(index));
    return copy.Flush();
  });
}

}  // namespace weft
