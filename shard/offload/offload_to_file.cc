#include "shard/offload/offload_to_file.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/options.h"
#include "shard/offload/scratch_file.h"

namespace weft {

absl::StatusOr<std::unique_ptr<StateStore>> OffloadToFile(const OffloadPlan& plan,
                                                          const OffloadOptions& options,
                                                          int64_t timeout_ns,
                                                          const BlockSource& source) {
  return OffloadState(
      plan, source,
      [&](std::span<std::byte> memory) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
        // A rank that keeps nothing has a file all the same.
        const uint64_t bytes = std::max<uint64_t>(plan.windows.file_bytes, BlockStore::kAlignment);
        if (options.make_store != nullptr) return options.make_store(memory, bytes);
        std::vector<std::span<std::byte>> slots;
        for (size_t at = 0; at < memory.size(); at += plan.slot_bytes)
          slots.push_back(memory.subspan(at, plan.slot_bytes));
        return ScratchFile::Create({.directory = options.directory,
                                    .bytes = bytes,
                                    .buffers = slots,
                                    .io = OffloadIoOf(GetOptions().offload_io),
                                    .timeout_ns = timeout_ns});
      });
}

}  // namespace weft
