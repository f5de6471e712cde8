#include "shard/offload/offload_to_file.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/param_reads.h"
#include "shard/offload/scratch_file.h"

namespace weft {
namespace {

std::vector<std::span<std::byte>> SlotsOf(std::span<std::byte> memory, size_t slot_bytes) {
  std::vector<std::span<std::byte>> slots;
  for (size_t at = 0; at < memory.size(); at += slot_bytes)
    slots.push_back(memory.subspan(at, slot_bytes));
  return slots;
}

}  // namespace

absl::StatusOr<Offloaded> OffloadToFile(const Layout& layout, const OffloadPlan& plan,
                                        const OffloadOptions& options, int64_t timeout_ns,
                                        const BlockSource& source, std::function<void()> told) {
  // A rank that keeps nothing has a file all the same.
  const uint64_t bytes = std::max<uint64_t>(plan.windows.file_bytes, BlockStore::kAlignment);
  const ScratchFile* file = nullptr;
  Offloaded offloaded;
  WEFT_ASSIGN_OR_RETURN(
      offloaded.state,
      OffloadState(
          plan, source,
          [&](std::span<std::byte> memory) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
            if (options.make_store != nullptr) return options.make_store(memory, bytes);
            const std::vector<std::span<std::byte>> slots = SlotsOf(memory, plan.slots.slot_bytes);
            WEFT_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFile> made,
                                  ScratchFile::Create({.directory = options.directory,
                                                       .bytes = bytes,
                                                       .buffers = slots,
                                                       .io = OffloadIoOf(GetOptions().offload_io),
                                                       .timeout_ns = timeout_ns}));
            file = made.get();
            return made;
          }));
  if (plan.reads.slot_count == 0) return offloaded;
  absl::StatusOr<Block> memory =
      Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, plan.reads.memory_bytes());
  if (!memory.ok()) {
    return Annotate(memory.status(), StrCat("allocating ", plan.reads.memory_bytes(),
                                            " bytes to read params through: "));
  }
  const std::span<std::byte> slots = AlignedPart(*memory, plan.reads.bytes());
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store,
                        options.make_store != nullptr
                            ? options.make_store(slots, bytes)
                            : file->OpenAgain(SlotsOf(slots, plan.reads.slot_bytes)));
  WEFT_ASSIGN_OR_RETURN(offloaded.params, ParamReads::Start(layout, plan, *std::move(memory),
                                                            std::move(store), std::move(told)));
  return offloaded;
}

}  // namespace weft
