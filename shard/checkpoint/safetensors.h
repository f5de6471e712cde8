// The header of a safetensors file (https://huggingface.co/docs/safetensors): eight bytes with its length, then JSON that tells name,
// type, shape and place of each tensor, padded with spaces; the tensors' bytes follow without holes.
//
//   WEFT_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries));   // the file's first bytes
//   WEFT_ASSIGN_OR_RETURN(SafetensorsLayout layout, ReadSafetensorsHeader(bytes, file_bytes));
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/checkpoint/element_type.h"

namespace weft {

// As in the package; a longer header is no header.
inline constexpr size_t kSafetensorsHeaderMax = 100'000'000;
inline constexpr size_t kSafetensorsLengthBytes = 8;

// The member of the header that is no tensor, and what it has: texts of the program that has written the file.
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";
using SafetensorsMetadata = std::map<std::string, std::string>;
// As JSON, and back; nothing of a text that is not.
std::string MetadataText(const SafetensorsMetadata& metadata);
SafetensorsMetadata ParseMetadata(std::string_view text);

struct SafetensorsEntry {
  std::string name;
  ElementType dtype = WEFT_FLOAT32;
  std::vector<int64_t> shape;
  size_t begin = 0;  // bytes of the data before it
  size_t end = 0;

  // What its shape says.
  size_t count() const;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsLayout {
  SafetensorsMetadata metadata;
  std::vector<SafetensorsEntry> entries;  // by their places
  size_t data_begin = 0;                  // bytes of the file before the data, a multiple of 8
};

// Orders entries by the size of their elements, those of one size as they were, and places them one behind the other from 0 on: so each begins
// at a multiple of its element's size, without holes. Returns of each, in the new order, which one of the old order it was.
std::vector<size_t> PlaceEntries(std::vector<SafetensorsEntry>* entries);

// Of entries that lie one behind the other from 0 on; their ends are what their shapes say. INVALID_ARGUMENT if names are too long for one
// header.
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                              const SafetensorsMetadata& metadata = {
                                                  {"format", "weft"}});

// `text`: the file's first bytes, at least SafetensorsHeaderBytes() of them. CORRUPT unless the entries lie without holes or overlap, fill a
// file of `file_bytes`, and are as long as their shapes say.
absl::StatusOr<SafetensorsLayout> ReadSafetensorsHeader(std::string_view text, size_t file_bytes);

// What the first kSafetensorsLengthBytes say of the header's length, those bytes included. CORRUPT if it is longer than such headers are, or
// than the file.
absl::StatusOr<size_t> SafetensorsHeaderBytes(std::string_view text, size_t file_bytes);

}  // namespace weft
