// An optimizer's state in a block store, of which a few windows are in memory.
//
//   const OffloadPlan plan = PlanOffload(groups, registry, layout, buffer_bytes);
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> store, OffloadState(plan, source, make_block_store));
//
// Params that are offloaded (Space::offloaded) lie in the windows as well. Whenever nothing is visited, the store has them as they are, so that
// param_reads.h may read them there.
//
// An update of a window goes on while the next ones are read and the one before is written, so it takes as long as the longer of both. How
// many bytes an update moves is in the plan.
//
// Thread-safety: as StateStore.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/offload/block_store.h"
#include "shard/offload/state_windows.h"
#include "shard/optimizer/state_store.h"

namespace weft {

struct SlotsPlan {
  size_t slot_bytes = 0;
  size_t slot_count = 0;

  size_t bytes() const { return slot_bytes * slot_count; }

  // What is allocated: slots, and what aligning them takes.
  size_t memory_bytes() const { return bytes() == 0 ? 0 : bytes() + BlockStore::kAlignment; }
};

struct OffloadPlan {
  static constexpr size_t kReadBytesMax = size_t{8} << 20;  // of `reads`

  StateWindows windows;
  SlotsPlan slots;  // for windows
  SlotsPlan reads;  // through which params are read for gathers; none if these are not offloaded

  size_t memory_bytes() const { return slots.memory_bytes() + reads.memory_bytes(); }
};

// What a block has from its first aligned byte on; it is that much larger.
std::span<std::byte> AlignedPart(const Block& block, size_t bytes);

// Slots are as large as the largest window, so more than asked for where a matrix of MUON is larger than a share of buffer_bytes. Those
// through which params are read take a quarter of buffer_bytes more, 8 MiB at most.
OffloadPlan PlanOffload(std::span<const OptimizerGroup> groups, const Registry& registry,
                        const Layout& layout, size_t buffer_bytes);

// What makes the store of a plan, over memory that it may register.
using BlockStoreMaker =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<BlockStore>>(std::span<std::byte> memory)>;

// OUT_OF_MEMORY, and the errors of `make`.
absl::StatusOr<std::unique_ptr<StateStore>> OffloadState(const OffloadPlan& plan,
                                                         const BlockSource& source,
                                                         BlockStoreMaker make);

}  // namespace weft
