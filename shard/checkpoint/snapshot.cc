// Entries of one size of elements are ordered by kind, so that what is loaded together lies together.
#include "shard/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

struct Piece {
  SafetensorsEntry entry;
  EntryBytes bytes;
};

// This rank's cut of a tensor, which is the same for all its kinds; its states go to *pieces.
absl::Status AddTensor(StateSource* source, size_t index, bool in_place, SavedTensor* tensor,
                       std::vector<Piece>* pieces) {
  for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
    const auto kind = static_cast<weft_shard_state_kind_t>(number);
    if (!tensor->Has(kind) || tensor->count() == 0) continue;
    WEFT_ASSIGN_OR_RETURN(const StatePart part, source->Part(index, kind));
    if (part.write_count == 0) continue;
    const size_t end = part.write_begin + part.write_count;
    if (tensor->cuts.empty()) tensor->cuts.push_back({.begin = part.write_begin, .end = end});
    const ElementType dtype = tensor->DtypeOf(kind);
    const auto* data = static_cast<const char*>(part.data);
    if (data != nullptr) data += (part.write_begin - part.begin) * DtypeSize(dtype);
    pieces->push_back({.entry = {.name = EntryName(tensor->name, kind, part.write_begin, end),
                                 .dtype = dtype,
                                 .shape = {static_cast<int64_t>(part.write_count)}},
                       .bytes = {.data = data,
                                 .source = source,
                                 .tensor = index,
                                 .kind = kind,
                                 .begin = part.write_begin,
                                 .held = data == nullptr || (in_place && source->Holds(kind))}});
  }
  return absl::OkStatus();
}

}  // namespace

size_t Snapshot::copied_bytes() const {
  size_t copied = 0;
  for (size_t i = 0; i < entries.size(); ++i)
    copied += bytes[i].held ? 0 : entries[i].end - entries[i].begin;
  return copied;
}

void Snapshot::CopyTo(char* to) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (bytes[i].held) continue;
    const size_t count = entries[i].end - entries[i].begin;
    std::memcpy(to, bytes[i].data, count);
    bytes[i].data = to;
    to += count;
  }
}

absl::StatusOr<Snapshot> TakeSnapshot(const std::vector<NamedSource>& sources,
                                      std::vector<SavedValue> values, bool in_place,
                                      int64_t hold_until_ns) {
  Snapshot snapshot;
  snapshot.values = std::move(values);
  std::vector<Piece> pieces;
  std::unordered_set<std::string> names;
  for (const NamedSource& named : sources) {
    const std::vector<SavedTensor>& tensors = named.source->tensors();
    const size_t first_piece = pieces.size();
    for (size_t i = 0; i < tensors.size(); ++i) {
      // Several intervals of one tensor on one rank are told apart by their cuts.
      SavedTensor tensor = tensors[i];
      tensor.optimizer = named.source->OptimizerOf(i);
      WEFT_RETURN_IF_ERROR(AddTensor(named.source, i, in_place, &tensor, &pieces));
      snapshot.tensors.push_back(std::move(tensor));
    }
    const bool holds =
        std::any_of(pieces.begin() + static_cast<ptrdiff_t>(first_piece), pieces.end(),
                    [](const Piece& piece) { return piece.bytes.held; });
    if (holds) {
      WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const void> hold, named.source->Hold(hold_until_ns));
      snapshot.holds.push_back(std::move(hold));
    }
    if (!named.source->HasScalars()) continue;
    WEFT_ASSIGN_OR_RETURN(const weft_shard_state_scalars_t scalars, named.source->Scalars());
    snapshot.scalars.emplace(named.name, scalars);
    std::vector<SavedGroup> groups = named.source->Groups();
    if (!groups.empty()) snapshot.optimizers.emplace(named.name, std::move(groups));
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.bytes.kind < b.bytes.kind; });
  for (Piece& piece : pieces) {
    if (!names.insert(piece.entry.name).second) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("two tensors of a checkpoint are ", piece.entry.name,
                              "; give each a name of its own"));
    }
    snapshot.entries.push_back(std::move(piece.entry));
  }
  for (const size_t i : PlaceEntries(&snapshot.entries))
    snapshot.bytes.push_back(pieces[i].bytes);
  return snapshot;
}

}  // namespace weft
