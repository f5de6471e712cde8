// Chunk by chunk, each once. One that goes to one place as a whole is read there at once; of others the ranges are copied out.
#include "shard/checkpoint/chunk_reader.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft {

size_t ChunkReader::ChunkBegin(size_t chunk) const {
  return chunk * kCheckpointChunkBytes;
}

size_t ChunkReader::ChunkBytes(size_t chunk) const {
  return std::min(kCheckpointChunkBytes, file_bytes_ - ChunkBegin(chunk));
}

absl::Status ChunkReader::ReadChunk(size_t chunk, void* to) const {
  const size_t bytes = ChunkBytes(chunk);
  WEFT_RETURN_IF_ERROR(file_.ReadAt(ChunkBegin(chunk), to, bytes));
  const uint32_t found = Crc32c(0, to, bytes);
  if (found == checksums_[chunk]) return absl::OkStatus();
  return MakeError(WEFT_CORRUPT,
                   StrCat(name_, ": bytes [", ChunkBegin(chunk), ", ", ChunkBegin(chunk) + bytes,
                          ") are not as they were written: their CRC-32C is ", ChecksumText(found),
                          ", and was ", ChecksumText(checksums_[chunk])));
}

absl::Status ChunkReader::Read(std::vector<FileRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const FileRange& a, const FileRange& b) { return a.begin < b.begin; });
  size_t next = 0;  // the first range that is not read to its end
  while (next < ranges.size()) {
    if (ranges[next].bytes == 0) {
      ++next;
      continue;
    }
    const size_t chunk = ranges[next].begin / kCheckpointChunkBytes;
    WEFT_CHECK(ranges[next].begin < file_bytes_ &&
               ranges[next].bytes <= file_bytes_ - ranges[next].begin);
    const size_t begin = ChunkBegin(chunk);
    const size_t end = begin + ChunkBytes(chunk);
    FileRange& first = ranges[next];
    if (first.begin == begin && first.begin + first.bytes >= end &&
        (next + 1 == ranges.size() || ranges[next + 1].begin >= end)) {
      WEFT_RETURN_IF_ERROR(ReadChunk(chunk, first.to));
    } else {
      chunk_.resize(std::min(kCheckpointChunkBytes, file_bytes_));
      WEFT_RETURN_IF_ERROR(ReadChunk(chunk, chunk_.data()));
      for (size_t i = next; i < ranges.size() && ranges[i].begin < end; ++i) {
        const FileRange& range = ranges[i];
        const size_t bytes = std::min(range.bytes, end - range.begin);
        if (bytes > 0) std::memcpy(range.to, &chunk_[range.begin - begin], bytes);
      }
    }
    for (size_t i = next; i < ranges.size() && ranges[i].begin < end; ++i) {
      FileRange& range = ranges[i];
      const size_t bytes = std::min(range.bytes, end - range.begin);
      range.begin += bytes;
      range.bytes -= bytes;
      range.to = static_cast<char*>(range.to) + bytes;
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
