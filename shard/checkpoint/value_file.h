// The larger values of one rank, one behind the other in a file of their own: the record and the manifest say where, and what their checksum is. So a text
// that every rank reads whole stays small, whatever values there are.
//
//   WEFT_ASSIGN_OR_RETURN(record.values, PlaceValues(snapshot.values));
//   WEFT_RETURN_IF_ERROR(WriteValueFile(files, path, snapshot.values));       // nothing if none of them is large
//   const std::map<int, size_t> file_bytes = ValueFileBytes(manifest.values);
//   WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadValue(files, path, value, file_bytes));
//
// Thread-safety: pure functions, but for the files.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "shard/checkpoint/manifest.h"

namespace weft {

// The values of one rank as its record has them: those that go to the file by their places, the others with their bytes. INVALID_ARGUMENT for one that is larger than
// values may be.
absl::StatusOr<std::vector<SavedValue>> PlaceValues(const std::vector<SavedValue>& values);

// Writes the file of these values, and syncs it; not its directory.
absl::Status WriteValueFile(Files& files, const std::string& path,
                            const std::vector<SavedValue>& values);

// By rank, how many bytes its file has, of those that have one.
std::map<int, size_t> ValueFileBytes(const std::vector<SavedValue>& values);

// The bytes of one, wherever they are, of a checkpoint in `directory` with files of these lengths. CORRUPT, naming the file, if they are not as they
// were written.
absl::StatusOr<std::string> ReadValue(Files& files, const std::string& directory,
                                      const SavedValue& value,
                                      const std::map<int, size_t>& file_bytes);

}  // namespace weft
