#include "shard/offload/scratch_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "base/check.h"
#include "base/files.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/preflight.h"
#include "shard/offload/unnamed_file.h"

namespace weft {
namespace {

ScratchFile::Config WithoutBuffers(ScratchFile::Config config) {
  config.buffers = {};
  return config;
}

QueuedStore::Settings SettingsOf(const ScratchFile::Config& config) {
  return {.bytes = config.bytes,
          .place = config.directory,
          .timeout_ns = TimeoutOrDefault(config.timeout_ns),
          .block_bytes = config.block_bytes};
}

}  // namespace

ScratchFile::ScratchFile(const Config& config, UniqueFd file, bool direct,
                         std::unique_ptr<BlockQueue> queue)
    : config_(WithoutBuffers(config)),
      file_(std::move(file)),
      direct_(direct),
      how_(StrCat(queue->how(), direct ? ", O_DIRECT" : ", page cache")),
      store_(std::move(queue), SettingsOf(config)) {}

// Each queue has a descriptor of its own, to be closed when nothing is under way in it any more.
absl::StatusOr<std::unique_ptr<BlockQueue>> ScratchFile::OpenQueue(const Config& config,
                                                                   bool direct,
                                                                   const UniqueFd& file) {
  UniqueFd descriptor = DuplicateFd(file.get());
  if (!descriptor.valid())
    return FileError(errno, StrCat("opening the offloaded state in ", config.directory, " again"));
  // Through the page cache io_uring hands every write to workers of the kernel's, one at a time: threads are quicker.
  const bool threads = config.io == OffloadIo::kAuto && !direct;
  return OpenBlockQueue(descriptor, {.io = threads ? OffloadIo::kThreads : config.io,
                                     .buffers = config.buffers,
                                     .depth = config.depth,
                                     .threads = config.threads});
}

absl::StatusOr<std::unique_ptr<ScratchFile>> ScratchFile::Create(const Config& config) {
  WEFT_CHECK(config.bytes > 0 && config.bytes % kAlignment == 0);
  WEFT_ASSIGN_OR_RETURN(UnnamedFile file,
                        MakeUnnamedFile(config.directory, config.bytes, config.direct));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockQueue> queue, OpenQueue(config, file.direct, file.fd));
  std::unique_ptr<ScratchFile> scratch(
      new ScratchFile(config, std::move(file.fd), file.direct, std::move(queue)));
  WEFT_RETURN_IF_ERROR(Annotate(TryStore(*scratch), "trying the disk before it is needed: "));
  return scratch;
}

absl::StatusOr<std::unique_ptr<BlockStore>> ScratchFile::OpenAgain(
    std::span<const std::span<std::byte>> buffers) const {
  Config config = config_;
  config.buffers = buffers;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockQueue> queue, OpenQueue(config, direct_, file_));
  return std::make_unique<QueuedStore>(std::move(queue), SettingsOf(config));
}

}  // namespace weft
