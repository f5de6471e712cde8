// Writes a file front to back in whole chunks, with a checksum of each.
//
//   ChunkWriter writer(file);
//   WEFT_RETURN_IF_ERROR(writer.Append(header.data(), header.size()));
//   ...
//   WEFT_RETURN_IF_ERROR(writer.Finish());
//   record.checksums = writer.checksums();
//
// A chunk that begins where the file takes whole blocks is written from where it is; the rest is gathered in memory of its own.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/allocator.h"
#include "base/files.h"

namespace weft {

class ChunkWriter {
 public:
  // `file` outlives it.
  explicit ChunkWriter(WritableFile& file) : file_(file) {}

  absl::Status Append(const void* data, size_t bytes);
  // Writes what is left of the last chunk. Not durable yet: sync the file.
  absl::Status Finish();

  // Of what was written.
  const std::vector<uint32_t>& checksums() const { return checksums_; }

  size_t bytes() const { return bytes_; }

 private:
  absl::Status WriteChunk(const void* data, size_t bytes);
  absl::Status WriteGathered();

  WritableFile& file_;
  PrivateMemory memory_;  // of a chunk, once something is gathered
  size_t gathered_bytes_ = 0;
  std::vector<uint32_t> checksums_;
  size_t bytes_ = 0;
};

}  // namespace weft
