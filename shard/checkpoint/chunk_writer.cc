#include "shard/checkpoint/chunk_writer.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/status.h"
#include "shard/checkpoint/manifest.h"

namespace weft {

absl::Status ChunkWriter::WriteChunk(const void* data, size_t bytes) {
  checksums_.push_back(Crc32c(0, data, bytes));
  WEFT_RETURN_IF_ERROR(file_.Write(data, bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status ChunkWriter::Append(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    if (gathered_.empty() && bytes >= kCheckpointChunkBytes) {
      WEFT_RETURN_IF_ERROR(WriteChunk(at, kCheckpointChunkBytes));
      at += kCheckpointChunkBytes;
      bytes -= kCheckpointChunkBytes;
      continue;
    }
    gathered_.reserve(kCheckpointChunkBytes);
    const size_t taken = std::min(bytes, kCheckpointChunkBytes - gathered_.size());
    gathered_.insert(gathered_.end(), at, at + taken);
    at += taken;
    bytes -= taken;
    if (gathered_.size() < kCheckpointChunkBytes) continue;
    WEFT_RETURN_IF_ERROR(WriteChunk(gathered_.data(), gathered_.size()));
    gathered_.clear();
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Finish() {
  if (gathered_.empty()) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(WriteChunk(gathered_.data(), gathered_.size()));
  gathered_.clear();
  return absl::OkStatus();
}

}  // namespace weft
