#include "shard/checkpoint/restore.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {
namespace {

absl::Status Misfit(const SavedCheckpoint& saved, const std::string& what) {
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat("the checkpoint ", saved.path(), " ", what));
}

absl::Status CheckTensor(const SavedCheckpoint& saved, const SavedTensor& own, uint32_t kinds) {
  const size_t place = saved.Find(own.name);
  if (place == SavedCheckpoint::kNone) {
    return Misfit(saved, StrCat("has no tensor ", own.name, ", of shape ", ShapeText(own.shape),
                                "; it is of another model"));
  }
  const SavedTensor& other = saved.manifest().tensors[place];
  if (other.shape != own.shape) {
    return Misfit(saved, StrCat("has tensor ", own.name, " with shape ", ShapeText(other.shape),
                                ", and this model has it with shape ", ShapeText(own.shape),
                                "; it is of another model"));
  }
  if (other.dtype != own.dtype) {
    return Misfit(saved, StrCat("has tensor ", own.name, " as ", SafetensorsType(other.dtype),
                                ", and this model has it as ", SafetensorsType(own.dtype),
                                "; use the types that it was saved with"));
  }
  for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
    const auto kind = static_cast<weft_shard_state_kind_t>(number);
    if ((kinds >> number & 1) == 0 || own.Has(kind) == other.Has(kind)) continue;
    return Misfit(saved,
                  StrCat(own.Has(kind) ? "has no " : "has a ", StateKindName(kind), " of tensor ",
                         own.name, own.Has(kind) ? "" : ", which this program has not",
                         ": it was saved with another optimizer, or one of the two has none; load "
                         "values only, or use the optimizer that it was saved with"));
  }
  return absl::OkStatus();
}

// A part that is not in memory, piece by piece.
absl::Status CopyPart(const SavedCheckpoint& saved, StateSource* source, size_t tensor,
                      weft_shard_state_kind_t kind, const StatePart& part) {
  constexpr size_t kPieceBytes = 4 * kCheckpointChunkBytes;
  const SavedTensor& own = source->tensors()[tensor];
  const size_t element = DtypeSize(own.DtypeOf(kind));
  std::vector<char> piece(std::min(kPieceBytes, part.count * element));
  for (size_t done = 0; done < part.count;) {
    const size_t count = std::min(piece.size() / element, part.count - done);
    WEFT_RETURN_IF_ERROR(saved.Read({{.tensor = saved.Find(own.name),
                                      .kind = kind,
                                      .begin = part.begin + done,
                                      .count = count,
                                      .to = piece.data()}}));
    WEFT_RETURN_IF_ERROR(source->Write(tensor, kind, part.begin + done, count, piece.data()));
    done += count;
  }
  return absl::OkStatus();
}

// What this rank keeps of one kind of all tensors: parts that are in memory are added to *wanted, others are read at once.
absl::Status AddWanted(const SavedCheckpoint& saved, StateSource* source,
                       weft_shard_state_kind_t kind, std::vector<WantedPart>* wanted) {
  const std::vector<SavedTensor>& tensors = source->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].Has(kind) || tensors[i].count() == 0) continue;
    WEFT_ASSIGN_OR_RETURN(const StatePart part, source->Part(i, kind));
    if (part.count == 0) continue;
    if (part.data == nullptr) {
      WEFT_RETURN_IF_ERROR(CopyPart(saved, source, i, kind, part));
      continue;
    }
    wanted->push_back({.tensor = saved.Find(tensors[i].name),
                       .kind = kind,
                       .begin = part.begin,
                       .count = part.count,
                       .to = part.data});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFits(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                       uint32_t kinds) {
  for (const NamedSource& named : sources) {
    for (const SavedTensor& tensor : named.source->tensors())
      WEFT_RETURN_IF_ERROR(CheckTensor(saved, tensor, kinds));
    if (kinds != WEFT_SHARD_STATE_VALUES && named.source->HasScalars() &&
        saved.manifest().scalars.count(named.name) == 0) {
      return Misfit(saved, StrCat("has no numbers of a context named \"", named.name, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status Restore(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                     uint32_t kinds) {
  if (kinds != WEFT_SHARD_STATE_VALUES) {
    for (const NamedSource& named : sources) {
      if (!named.source->HasScalars()) continue;
      WEFT_RETURN_IF_ERROR(named.source->SetScalars(saved.manifest().scalars.at(named.name)));
    }
  }
  // Main copies are told of after the values are written.
  for (const bool values : {true, false}) {
    std::vector<WantedPart> wanted;
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      if ((kinds >> number & 1) == 0 || (kind == WEFT_SHARD_STATE_VALUE) != values) continue;
      for (const NamedSource& named : sources)
        WEFT_RETURN_IF_ERROR(AddWanted(saved, named.source, kind, &wanted));
    }
    WEFT_RETURN_IF_ERROR(saved.Read(wanted));
  }
  return absl::OkStatus();
}

std::vector<uint8_t> WantedTensors(const SavedCheckpoint& saved,
                                   const std::vector<NamedSource>& sources) {
  std::vector<uint8_t> bits((saved.manifest().tensors.size() + 7) / 8);
  for (const NamedSource& named : sources) {
    for (const SavedTensor& tensor : named.source->tensors()) {
      const size_t place = saved.Find(tensor.name);
      if (place != SavedCheckpoint::kNone)
        bits[place / 8] = static_cast<uint8_t>(bits[place / 8] | 1u << place % 8);
    }
  }
  return bits;
}

}  // namespace weft
