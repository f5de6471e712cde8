#include "shard/checkpoint/restore.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/convert.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {
namespace {

absl::Status Misfit(const SavedCheckpoint& saved, const std::string& what) {
  return MakeError(WEFT_INVALID_ARGUMENT, StrCat("the checkpoint ", saved.path(), " ", what));
}

// "it is frozen", "adamw updates it": what a sentence says of a tensor; "" if nothing is known.
std::string UpdateText(const SavedTensor& tensor) {
  if (tensor.frozen) return "it is frozen";
  return tensor.optimizer ? StrCat(OptimizerName(*tensor.optimizer), " updates it") : "";
}

// One of the two has such a state of the tensor, the other has not.
absl::Status KindMisfit(const SavedCheckpoint& saved, const SavedTensor& own,
                        const SavedTensor& other, weft_shard_state_kind_t kind) {
  const std::string name = StateKindName(kind);
  if (own.Has(kind) && other.frozen) {
    return Misfit(saved,
                  StrCat("has no ", name, " of tensor ", own.name,
                         ": the param was frozen when it was saved, and is trained now; load "
                         "values only, so that its state begins anew, or freeze it again"));
  }
  if (!own.Has(kind) && own.frozen) {
    return Misfit(saved,
                  StrCat("has a ", name, " of tensor ", own.name,
                         ", which this program would drop: the param was trained when it was "
                         "saved, and is frozen now; load values only, or train it again"));
  }
  const std::string then = UpdateText(other);
  const std::string now = UpdateText(own);
  const std::string why = then.empty() || now.empty()
                              ? "it was saved with another optimizer, or one of the two has none"
                              : StrCat("when it was saved, ", then, ", and now ", now);
  return Misfit(saved, StrCat(own.Has(kind) ? "has no " : "has a ", name, " of tensor ", own.name,
                              own.Has(kind) ? "" : ", which this program has not", ": ", why,
                              "; load values only, or use the optimizer that it was saved with"));
}

// Where the checkpoint has a tensor of that name here, or kNone.
size_t PlaceOf(const SavedCheckpoint& saved, const MatchRules& rules, const std::string& own) {
  const auto renamed = rules.names.find(own);
  if (renamed == rules.names.end()) return saved.Find(own);
  return renamed->second ? saved.Find(*renamed->second) : SavedCheckpoint::kNone;
}

// Of a tensor that the checkpoint has not.
absl::Status CheckMayMiss(const SavedCheckpoint& saved, const SavedTensor& own,
                          const MatchRules& rules) {
  const auto renamed = rules.names.find(own.name);
  if (renamed == rules.names.end()) {
    if (rules.partial) return absl::OkStatus();
    return Misfit(saved, StrCat("has no tensor ", own.name, ", of shape ", ShapeText(own.shape),
                                "; it is of another model"));
  }
  if (!renamed->second) return absl::OkStatus();
  return Misfit(saved, StrCat("has no tensor ", *renamed->second, ", which ", own.name,
                              " is to be taken from; correct the map of names"));
}

absl::Status CheckTensor(const SavedCheckpoint& saved, const SavedTensor& own, uint32_t kinds,
                         const MatchRules& rules) {
  const size_t place = PlaceOf(saved, rules, own.name);
  if (place == SavedCheckpoint::kNone) return CheckMayMiss(saved, own, rules);
  const SavedTensor& other = saved.manifest().tensors[place];
  if (other.shape != own.shape) {
    return Misfit(saved, StrCat("has tensor ", own.name, " with shape ", ShapeText(other.shape),
                                ", and this model has it with shape ", ShapeText(own.shape),
                                "; it is of another model"));
  }
  if (other.dtype != own.dtype && !(rules.convert && CanConvert(other.dtype, own.dtype))) {
    return Misfit(saved, StrCat("has tensor ", own.name, " as ", other.dtype.name(),
                                ", and this model has it as ", own.dtype.name(),
                                CanConvert(other.dtype, own.dtype)
                                    ? "; use the type that it was saved with, or have values "
                                      "converted (WEFT_CHECKPOINT_CONVERT)"
                                    : "; use the types that it was saved with"));
  }
  for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
    const auto kind = static_cast<weft_shard_state_kind_t>(number);
    if ((kinds >> number & 1) == 0 || own.Has(kind) == other.Has(kind)) continue;
    return KindMisfit(saved, own, other, kind);
  }
  // Moments of one optimizer are numbers of another meaning in another one. A main copy is the same whatever updates it.
  const bool moments = (own.kinds & other.kinds & kinds & WEFT_SHARD_STATE_MOMENTS) != 0;
  if (moments && own.optimizer && other.optimizer && *own.optimizer != *other.optimizer) {
    return Misfit(
        saved, StrCat("has moments of tensor ", own.name, " that ", OptimizerName(*other.optimizer),
                      " has made, and this program updates it by ", OptimizerName(*own.optimizer),
                      "; load values only, or use the optimizer that it was saved with"));
  }
  return absl::OkStatus();
}

// Returns `status`, of a source.
absl::Status Noted(const absl::Status& status, bool* source_failed) {
  if (!status.ok() && source_failed != nullptr) *source_failed = true;
  return status;
}

// Parts that are not in memory, or are of another type there, through a buffer of pieces: they are read together, as small tensors share chunks
// of the file.
class PartsElsewhere {
 public:
  PartsElsewhere(const SavedCheckpoint& saved, bool* source_failed)
      : saved_(saved), source_failed_(source_failed) {}

  // `place`: of the tensor in the checkpoint.
  absl::Status Add(StateSource* source, size_t tensor, size_t place, weft_shard_state_kind_t kind,
                   const StatePart& part) {
    const ElementType own = source->tensors()[tensor].DtypeOf(kind);
    const ElementType saved = saved_.manifest().tensors[place].DtypeOf(kind);
    const size_t element = DtypeSize(saved);
    if (buffer_.empty()) buffer_.resize(kBufferBytes);
    for (size_t done = 0; done < part.count;) {
      if (buffer_.size() - used_ < element) WEFT_RETURN_IF_ERROR(Flush());
      const size_t count = std::min(
          {(buffer_.size() - used_) / element, part.count - done, kBufferBytes / DtypeSize(own)});
      char* const data = static_cast<char*>(part.data);
      wanted_.push_back({.tensor = place,
                         .kind = kind,
                         .begin = part.begin + done,
                         .count = count,
                         .to = buffer_.data() + used_});
      writes_.push_back({.source = source,
                         .tensor = tensor,
                         .data = data == nullptr ? nullptr : data + done * DtypeSize(own)});
      used_ += count * element;
      done += count;
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    WEFT_RETURN_IF_ERROR(saved_.Read(wanted_));
    for (size_t i = 0; i < wanted_.size(); ++i)
      WEFT_RETURN_IF_ERROR(Noted(Write(wanted_[i], writes_[i]), source_failed_));
    wanted_.clear();
    writes_.clear();
    used_ = 0;
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kBufferBytes = 4 * kCheckpointChunkBytes;

  struct Destination {
    StateSource* source;
    size_t tensor;
    char* data;  // or nullptr: it is written by the source
  };

  absl::Status Write(const WantedPart& piece, const Destination& to) {
    const ElementType own = to.source->tensors()[to.tensor].DtypeOf(piece.kind);
    const ElementType saved = saved_.manifest().tensors[piece.tensor].DtypeOf(piece.kind);
    const char* values = static_cast<const char*>(piece.to);
    if (own != saved) {
      converted_.resize(std::max(converted_.size(), piece.count * DtypeSize(own)));
      Convert(saved, values, own, converted_.data(), piece.count);
      values = converted_.data();
    }
    if (to.data == nullptr)
      return to.source->Write(to.tensor, piece.kind, piece.begin, piece.count, values);
    std::memcpy(to.data, values, piece.count * DtypeSize(own));
    return absl::OkStatus();
  }

  const SavedCheckpoint& saved_;
  bool* const source_failed_;
  std::vector<char> buffer_;
  std::vector<char> converted_;  // a piece
  size_t used_ = 0;
  std::vector<WantedPart> wanted_;
  std::vector<Destination> writes_;  // of each
};

// What this rank keeps of one kind of all tensors: parts that are in memory as they are saved are added to *wanted, others to *elsewhere.
absl::Status AddWanted(const SavedCheckpoint& saved, StateSource* source, const MatchRules& rules,
                       weft_shard_state_kind_t kind, std::vector<WantedPart>* wanted,
                       PartsElsewhere* elsewhere) {
  const std::vector<SavedTensor>& tensors = source->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].Has(kind) || tensors[i].count() == 0) continue;
    const size_t place = PlaceOf(saved, rules, tensors[i].name);
    if (place == SavedCheckpoint::kNone) continue;
    WEFT_ASSIGN_OR_RETURN(const StatePart part, source->Part(i, kind));
    if (part.count == 0) continue;
    if (part.data == nullptr ||
        saved.manifest().tensors[place].DtypeOf(kind) != tensors[i].DtypeOf(kind)) {
      WEFT_RETURN_IF_ERROR(elsewhere->Add(source, i, place, kind, part));
      continue;
    }
    wanted->push_back(
        {.tensor = place, .kind = kind, .begin = part.begin, .count = part.count, .to = part.data});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFits(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                       uint32_t kinds, const MatchRules& rules) {
  for (const NamedSource& named : sources) {
    const std::vector<SavedTensor>& tensors = named.source->tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      SavedTensor tensor = tensors[i];
      tensor.optimizer = named.source->OptimizerOf(i);
      WEFT_RETURN_IF_ERROR(CheckTensor(saved, tensor, kinds, rules));
    }
    if (kinds != WEFT_SHARD_STATE_VALUES && named.source->HasScalars() &&
        saved.manifest().scalars.count(named.name) == 0) {
      return Misfit(saved, StrCat("has no numbers of a context named \"", named.name, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status Restore(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                     uint32_t kinds, bool* source_failed, const MatchRules& rules) {
  if (kinds != WEFT_SHARD_STATE_VALUES) {
    for (const NamedSource& named : sources) {
      if (!named.source->HasScalars()) continue;
      WEFT_RETURN_IF_ERROR(named.source->SetScalars(saved.manifest().scalars.at(named.name)));
    }
  }
  for (const NamedSource& named : sources)
    WEFT_RETURN_IF_ERROR(Noted(named.source->BeginWriting(), source_failed));
  // Main copies are told of after the values are written.
  for (const bool values : {true, false}) {
    std::vector<WantedPart> wanted;
    PartsElsewhere elsewhere(saved, source_failed);
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      if ((kinds >> number & 1) == 0 || (kind == WEFT_SHARD_STATE_VALUE) != values) continue;
      for (const NamedSource& named : sources)
        WEFT_RETURN_IF_ERROR(AddWanted(saved, named.source, rules, kind, &wanted, &elsewhere));
    }
    WEFT_RETURN_IF_ERROR(saved.Read(wanted));
    WEFT_RETURN_IF_ERROR(elsewhere.Flush());
  }
  return absl::OkStatus();
}

std::vector<uint8_t> WantedTensors(const SavedCheckpoint& saved,
                                   const std::vector<NamedSource>& sources,
                                   const MatchRules& rules) {
  std::vector<uint8_t> bits((saved.manifest().tensors.size() + 7) / 8);
  for (const NamedSource& named : sources) {
    for (const SavedTensor& tensor : named.source->tensors()) {
      const size_t place = PlaceOf(saved, rules, tensor.name);
      if (place != SavedCheckpoint::kNone)
        bits[place / 8] = static_cast<uint8_t>(bits[place / 8] | 1u << place % 8);
    }
  }
  return bits;
}

std::vector<std::string> KeptTensors(const SavedCheckpoint& saved,
                                     const std::vector<NamedSource>& sources,
                                     const MatchRules& rules) {
  std::vector<std::string> kept;
  std::unordered_set<std::string_view> seen;  // of one tensor there may be several intervals
  for (const NamedSource& named : sources) {
    for (const SavedTensor& tensor : named.source->tensors()) {
      if (PlaceOf(saved, rules, tensor.name) == SavedCheckpoint::kNone &&
          seen.insert(tensor.name).second)
        kept.push_back(tensor.name);
    }
  }
  return kept;
}

}  // namespace weft
