// An optimizer's state in a block store, of which a few windows are in memory.
//
//   const OffloadPlan plan = PlanOffload(groups, registry, layout, buffer_bytes);
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> store, OffloadState(plan, source, make_block_store));
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

struct OffloadPlan {
  StateWindows windows;
  size_t slot_bytes = 0;
  size_t slot_count = 0;

  // What is allocated: slots, and what aligning them takes.
  size_t memory_bytes() const;
};

// Slots are as large as the largest window, so more than asked for where a matrix of MUON is larger than a share of buffer_bytes.
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
