#include "shard/offload/scratch_file.h"

#include <utility>

#include "base/check.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/preflight.h"
#include "shard/offload/unnamed_file.h"

namespace weft {

ScratchFile::ScratchFile(std::string how, std::unique_ptr<BlockQueue> queue,
                         QueuedStore::Settings settings)
    : how_(std::move(how)), store_(std::move(queue), std::move(settings)) {}

absl::StatusOr<std::unique_ptr<ScratchFile>> ScratchFile::Create(const Config& config) {
  WEFT_CHECK(config.bytes > 0 && config.bytes % kAlignment == 0);
  const int64_t timeout_ns = TimeoutOrDefault(config.timeout_ns);
  WEFT_ASSIGN_OR_RETURN(UnnamedFile file,
                        MakeUnnamedFile(config.directory, config.bytes, config.direct));
  const bool direct = file.direct;
  // Through the page cache io_uring hands every write to workers of the kernel's, one at a time: threads are quicker.
  const bool threads = config.io == OffloadIo::kAuto && !direct;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockQueue> queue,
                        OpenBlockQueue(file.fd, {.io = threads ? OffloadIo::kThreads : config.io,
                                                 .buffers = config.buffers,
                                                 .depth = config.depth,
                                                 .threads = config.threads}));
  std::string how = StrCat(queue->how(), direct ? ", O_DIRECT" : ", page cache");
  std::unique_ptr<ScratchFile> scratch(new ScratchFile(std::move(how), std::move(queue),
                                                       {.bytes = config.bytes,
                                                        .place = config.directory,
                                                        .timeout_ns = timeout_ns,
                                                        .block_bytes = config.block_bytes}));
  WEFT_RETURN_IF_ERROR(Annotate(TryStore(*scratch), "trying the disk before it is needed: "));
  return scratch;
}

}  // namespace weft
