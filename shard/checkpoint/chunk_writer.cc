#include "shard/checkpoint/chunk_writer.h"

#include <algorithm>
#include <cstring>

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

absl::Status ChunkWriter::WriteGathered() {
  WEFT_RETURN_IF_ERROR(WriteChunk(memory_.data(), gathered_bytes_));
  gathered_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status ChunkWriter::Append(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const bool blocks = reinterpret_cast<uintptr_t>(at) % WritableFile::kBlockBytes == 0;
    if (gathered_bytes_ == 0 && bytes >= kCheckpointChunkBytes && blocks) {
      WEFT_RETURN_IF_ERROR(WriteChunk(at, kCheckpointChunkBytes));
      at += kCheckpointChunkBytes;
      bytes -= kCheckpointChunkBytes;
      continue;
    }
    if (memory_.bytes() == 0) {
      WEFT_ASSIGN_OR_RETURN(
          memory_, PrivateMemory::Allocate(kCheckpointChunkBytes, WritableFile::kBlockBytes,
                                           "a chunk of a checkpoint's file"));
    }
    const size_t taken = std::min(bytes, kCheckpointChunkBytes - gathered_bytes_);
    std::memcpy(memory_.data() + gathered_bytes_, at, taken);
    gathered_bytes_ += taken;
    at += taken;
    bytes -= taken;
    if (gathered_bytes_ == kCheckpointChunkBytes) WEFT_RETURN_IF_ERROR(WriteGathered());
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Finish() {
  return gathered_bytes_ == 0 ? absl::OkStatus() : WriteGathered();
}

}  // namespace weft
