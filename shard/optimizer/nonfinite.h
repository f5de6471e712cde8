// Gradients that are infinite or NaN: which param has the first one, on which rank, and whether that is to be said, or
// to end the training.
//
//   if (run.Next(config, /*expected=*/false) == Nonfinite::kSkip) return;     // every rank alike
//   WEFT_ASSIGN_OR_RETURN(const NonfiniteGradient first, FirstNonfinite(...));     // collective
//   ... registry.params()[first.param].name, first.rank ...
//
// That there are some shows in the gradient norm, which every update makes anyhow; gradients are looked through only
// then.
//
// Thread-safety: values and pure functions; FirstNonfinite is a collective call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/shard_step.h"

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/kernels/isa.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/optimizer_config.h"

namespace weft {

// What comes of a step whose gradients are not all finite, apart from being skipped.
enum class Nonfinite { kSkip, kWarn, kFail };

// Steps in a row.
class NonfiniteRun {
 public:
  // A step with such gradients. `expected`: the loss scale answers it.
  Nonfinite Next(const OptimizerConfig& config, bool expected);

  // A step without.
  void End() { steps_ = 0; }

  int64_t steps() const { return steps_; }

  // Goes on after so many.
  void SetSteps(int64_t steps) { steps_ = steps; }

 private:
  int64_t steps_ = 0;
};

struct NonfiniteGradient {
  int param = -1;      // -1: there is none
  size_t element = 0;  // of the param
  int rank = 0;        // in whose part of the reduced gradients it is
};

// The first by param, then by element, of all ranks' shares of the reduced gradients that count. Collective.
absl::StatusOr<NonfiniteGradient> FirstNonfinite(ProcessGroup& group, const Registry& registry,
                                                 const Layout& layout, const Storage& storage,
                                                 Isa isa, int64_t timeout_ns,
                                                 const CallPurpose& purpose);

// Where and when it was found.
struct NonfiniteStep {
  std::string_view group;
  int64_t elements = 0;  // that are not finite, on all ranks
  int64_t step = 0;
  int64_t steps = 0;  // of such ones in a row
};

// "optimizer_step on group dp, step 12: ..., the first in parameter x on rank 2; ...".
std::string NonfiniteText(const NonfiniteGradient& first, const Registry& registry,
                          const NonfiniteStep& when);

}  // namespace weft
