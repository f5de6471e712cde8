// What a context that is finalized can still be told: how far it prefetches, how often it verifies.
//
//   WEFT_RETURN_IF_ERROR(ChangeSettings(core, {.prefetch = 3}));
//
// Thread-safety: as the calls of a step.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "shard/context/context_core.h"

namespace weft {

struct SettingsChange {
  std::optional<int> prefetch;
  std::optional<int64_t> verify_steps;
};

// Between steps. Collective: MISMATCH names the first rank that asks for other settings than rank 0, and nothing has changed.
// With another prefetch all schedules are learnt anew, by a step of each kind that is served on demand.
absl::Status ChangeSettings(ContextCore& core, const SettingsChange& change);

}  // namespace weft
