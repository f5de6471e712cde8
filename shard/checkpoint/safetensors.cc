#include "shard/checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/json_reader.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr size_t kSafetensorsAlignment = 8;
constexpr size_t kSafetensorsEntriesMax = 1 << 22;
constexpr size_t kSafetensorsDimensionsMax = 32;

// Bytes of a tensor; false if there is no such number.
bool BytesOfShape(const SafetensorsEntry& entry, size_t* bytes) {
  *bytes = DtypeSize(entry.dtype);
  for (const int64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(*bytes, static_cast<size_t>(dimension), bytes)) return false;
  }
  return true;
}

SafetensorsEntry ReadEntry(SortedJsonReader* reader, const std::string& name,
                           const SortedJson& json) {
  SafetensorsEntry entry{.name = name};
  const std::string type = reader->Text(reader->Member(json, "dtype"));
  const std::optional<ElementType> known = ElementType::OfName(type);
  if (known) {
    entry.dtype = *known;
  } else {
    reader->Fail(StrCat("tensor ", name, " of type \"", type,
                        "\", which checkpoints do not hold; convert it, or leave it out"));
  }
  for (const SortedJson* const dimension :
       reader->List(reader->Member(json, "shape"), 0, kSafetensorsDimensionsMax)) {
    entry.shape.push_back(
        static_cast<int64_t>(reader->Number(*dimension, std::numeric_limits<int64_t>::max())));
  }
  const std::vector<const SortedJson*> place =
      reader->List(reader->Member(json, "data_offsets"), 2, 2);
  if (!reader->ok()) return entry;
  entry.begin = reader->Number(*place[0], std::numeric_limits<int64_t>::max());
  entry.end = reader->Number(*place[1], std::numeric_limits<int64_t>::max());
  size_t bytes = 0;
  if (!BytesOfShape(entry, &bytes) || entry.end < entry.begin || entry.end - entry.begin != bytes)
    reader->Fail(StrCat("a place of tensor ", name, " that its shape does not fill"));
  return entry;
}

SafetensorsMetadata ReadMetadata(SortedJsonReader* reader, const SortedJson& json) {
  SafetensorsMetadata metadata;
  if (!json.is_object()) reader->Fail(StrCat("a ", kSafetensorsMetadata, " that is no object"));
  for (const auto& [key, value] : json.items()) {
    if (value.is_string())
      metadata.emplace(key, value.get<std::string>());
    else
      reader->Fail(StrCat("a \"", key, "\" in ", kSafetensorsMetadata, " that is no text"));
  }
  return metadata;
}

}  // namespace

std::string MetadataText(const SafetensorsMetadata& metadata) {
  return JsonLine(metadata);
}

SafetensorsMetadata ParseMetadata(std::string_view text) {
  SortedJsonReader reader(kSafetensorsMetadata);
  SafetensorsMetadata metadata = ReadMetadata(&reader, reader.Parse(text, kSafetensorsHeaderMax));
  return reader.ok() ? metadata : SafetensorsMetadata();
}

size_t SafetensorsEntry::count() const {
  size_t count = 1;
  for (const int64_t dimension : shape)
    count *= static_cast<size_t>(dimension);
  return count;
}

std::vector<size_t> PlaceEntries(std::vector<SafetensorsEntry>* entries) {
  std::vector<size_t> order(entries->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return DtypeSize((*entries)[b].dtype) < DtypeSize((*entries)[a].dtype);
  });
  std::vector<SafetensorsEntry> placed;
  placed.reserve(order.size());
  size_t end = 0;
  for (const size_t i : order) {
    SafetensorsEntry& entry = placed.emplace_back(std::move((*entries)[i]));
    entry.begin = end;
    end += entry.count() * DtypeSize(entry.dtype);
    entry.end = end;
  }
  *entries = std::move(placed);
  return order;
}

absl::StatusOr<std::string> SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                              const SafetensorsMetadata& metadata) {
  // By hand: of a million tensors a JSON value each would take most of the time of a save.
  std::string text = StrCat("{\"", kSafetensorsMetadata, "\":", MetadataText(metadata));
  for (const SafetensorsEntry& entry : entries) {
    text += StrCat(",", JsonLine(Json(entry.name)), ":{\"dtype\":\"", entry.dtype.name(),
                   "\",\"shape\":[");
    for (size_t i = 0; i < entry.shape.size(); ++i)
      text += StrCat(i == 0 ? "" : ",", entry.shape[i]);
    text += StrCat("],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  text += "}";
  text.resize(
      (text.size() + kSafetensorsAlignment - 1) / kSafetensorsAlignment * kSafetensorsAlignment,
      ' ');
  if (text.size() > kSafetensorsHeaderMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("names and shapes of ", entries.size(), " tensors take ", text.size(),
                            " bytes in one file; up to ", kSafetensorsHeaderMax, " can be read"));
  }
  WireWriter header;
  header.U64(text.size());
  header.Bytes(text);
  return header.Take();
}

absl::StatusOr<size_t> SafetensorsHeaderBytes(std::string_view text, size_t file_bytes) {
  WireReader reader(text);
  const uint64_t length = reader.U64();
  if (file_bytes < kSafetensorsLengthBytes || text.size() < kSafetensorsLengthBytes ||
      length > kSafetensorsHeaderMax) {
    return MakeError(WEFT_CORRUPT, "it does not begin with the length of a safetensors header");
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    return MakeError(WEFT_CORRUPT,
                     StrCat("its header is to end at byte ", kSafetensorsLengthBytes + length,
                            ", and the file has ", file_bytes, " bytes; was it cut off?"));
  }
  return kSafetensorsLengthBytes + length;
}

absl::StatusOr<SafetensorsLayout> ReadSafetensorsHeader(std::string_view text, size_t file_bytes) {
  WEFT_ASSIGN_OR_RETURN(const size_t header_bytes, SafetensorsHeaderBytes(text, file_bytes));
  SortedJsonReader reader("its safetensors header");
  if (text.size() < header_bytes) reader.Fail("too few bytes");
  SafetensorsLayout layout{.data_begin = header_bytes};
  SortedJson json;
  if (reader.ok()) {
    // What is no object is left, and is no tensor.
    json = reader.Parse(
        text.substr(kSafetensorsLengthBytes, header_bytes - kSafetensorsLengthBytes),
        kSafetensorsHeaderMax, {.take = [&](const std::string& name, const SortedJson& entry) {
          if (layout.entries.size() == kSafetensorsEntriesMax) reader.Fail("too many tensors");
          if (!reader.ok()) return;
          if (name == kSafetensorsMetadata)
            layout.metadata = ReadMetadata(&reader, entry);
          else
            layout.entries.push_back(ReadEntry(&reader, name, entry));
        }});
  }
  if (reader.ok() && !json.empty())
    reader.Fail(StrCat("a member \"", json.begin().key(), "\" that is no object"));
  std::sort(layout.entries.begin(), layout.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  size_t end = 0;
  const std::string* before = nullptr;
  for (const SafetensorsEntry& entry : layout.entries) {
    if (entry.begin > end) {
      reader.Fail(StrCat("a hole of ", entry.begin - end, " bytes before tensor ", entry.name,
                         ", which begins at ", entry.begin));
    } else if (entry.begin < end) {
      reader.Fail(StrCat("tensor ", entry.name, " at [", entry.begin, ", ", entry.end,
                         "), which overlaps tensor ", *before, ", up to ", end));
    }
    before = &entry.name;
    end = entry.end;
  }
  if (end != file_bytes - header_bytes) {
    reader.Fail(StrCat(end, " bytes of tensors, so that the file would have ", header_bytes + end,
                       ", and the file has ", file_bytes,
                       end > file_bytes - header_bytes ? "; was it cut off?" : ""));
  }
  WEFT_RETURN_IF_ERROR(reader.status());
  return layout;
}

}  // namespace weft
