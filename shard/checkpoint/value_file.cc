#include "shard/checkpoint/value_file.h"

#include <memory>
#include <utility>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {
namespace {

bool IsLarge(const SavedValue& value) {
  return value.bytes.size() > kInlineValueBytesMax;
}

}  // namespace

absl::StatusOr<std::vector<SavedValue>> PlaceValues(const std::vector<SavedValue>& values) {
  std::vector<SavedValue> placed;
  placed.reserve(values.size());
  size_t end = 0;
  for (const SavedValue& value : values) {
    const size_t bytes = value.bytes.size();
    if (bytes > kCheckpointValueBytesMax) {
      return MakeError(WEFT_INVALID_ARGUMENT,
                       StrCat("value ", value.name, " has ", bytes, " bytes; values have up to ",
                              kCheckpointValueBytesMax, ", save it as a tensor"));
    }
    if (!IsLarge(value)) {
      placed.push_back(value);
      continue;
    }
    const ValuePlace place{
        .begin = end, .bytes = bytes, .checksum = Crc32c(0, value.bytes.data(), bytes)};
    placed.push_back({.name = value.name, .rank = value.rank, .bytes = {}, .place = place});
    end += bytes;
  }
  return placed;
}

absl::Status WriteValueFile(Files& files, const std::string& path,
                            const std::vector<SavedValue>& values) {
  size_t bytes = 0;
  for (const SavedValue& value : values)
    bytes += IsLarge(value) ? value.bytes.size() : 0;
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path, bytes));
  for (const SavedValue& value : values) {
    if (IsLarge(value)) WEFT_RETURN_IF_ERROR(file->Write(value.bytes.data(), value.bytes.size()));
  }
  WEFT_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

std::map<int, size_t> ValueFileBytes(const std::vector<SavedValue>& values) {
  std::map<int, size_t> bytes;
  for (const SavedValue& value : values) {
    if (value.place) bytes[value.writer()] += value.place->bytes;
  }
  return bytes;
}

absl::StatusOr<std::string> ReadValue(Files& files, const std::string& directory,
                                      const SavedValue& value,
                                      const std::map<int, size_t>& file_bytes) {
  if (!value.place) return value.bytes;
  const std::string path = JoinPath(directory, ValueFileName(value.writer()));
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  WEFT_ASSIGN_OR_RETURN(const size_t found_bytes, file->Size());
  if (const size_t written = file_bytes.at(value.writer()); found_bytes != written) {
    return MakeError(WEFT_CORRUPT,
                     StrCat(path, " has ", found_bytes, " bytes, and was written with ", written));
  }
  std::string bytes(value.place->bytes, '\0');
  WEFT_RETURN_IF_ERROR(file->ReadAt(value.place->begin, bytes.data(), bytes.size()));
  const uint32_t found = Crc32c(0, bytes.data(), bytes.size());
  if (found == value.place->checksum) return bytes;
  return MakeError(
      WEFT_CORRUPT,
      StrCat(path, ": value ", value.name, " is not as it was written: its CRC-32C is ",
             ChecksumText(found), ", and was ", ChecksumText(value.place->checksum)));
}

}  // namespace weft
