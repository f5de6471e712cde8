// Reads ranges of a file whose chunks have checksums. No range counts as read before the checksums of all chunks that it touches were
// right; until then there may be anything where it goes.
//
//   ChunkReader reader(file, "rank-00003.safetensors", record.file_bytes, record.checksums);
//   WEFT_RETURN_IF_ERROR(reader.Read(ranges));       // sorted here
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/files.h"

namespace weft {

// Bytes [begin, begin + bytes) of the file, which go to `to`.
struct FileRange {
  size_t begin = 0;
  size_t bytes = 0;
  void* to = nullptr;
};

class ChunkReader {
 public:
  // `file` and `checksums` outlive it. `name`: for sentences.
  ChunkReader(ReadableFile& file, std::string name, size_t file_bytes,
              const std::vector<uint32_t>& checksums)
      : file_(file), name_(std::move(name)), file_bytes_(file_bytes), checksums_(checksums) {}

  // CORRUPT, naming the file and the chunk, if one is not as it was written; the errors of reading.
  absl::Status Read(std::vector<FileRange> ranges);

 private:
  absl::Status ReadChunk(size_t chunk, void* to) const;
  size_t ChunkBegin(size_t chunk) const;
  size_t ChunkBytes(size_t chunk) const;

  ReadableFile& file_;
  const std::string name_;
  const size_t file_bytes_;
  const std::vector<uint32_t>& checksums_;
  std::vector<char> chunk_;
};

}  // namespace weft
