// Finds training that goes wrong quietly: copies of params that differ, samples that do not, ranks that lag behind.
//
//   ConsistencyChecks checks(core, params, clock);
//   WEFT_RETURN_IF_ERROR(checks.Verify());
//
// All of it is collective: ranks tell each other digests, never the values.
//
// Thread-safety: of the thread that makes step calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/context/context_core.h"
#include "shard/context/param_access.h"
#include "shard/step/step_clock.h"

namespace weft {

class ConsistencyChecks {
 public:
  // All outlive this.
  ConsistencyChecks(ContextCore& core, ParamAccess& params, StepClock& clock)
      : core_(core), params_(params), clock_(clock) {}

  // MISMATCH if ranks that should have the same params and optimizer state do not.
  absl::Status Verify();
  // After as many training steps as the options say; `call` says in whose name.
  absl::Status VerifyIfDue(const char* call);
  absl::Status CompareCopies(const char* call, bool optimizer_too);
  // MISMATCH if another rank was given the same bytes.
  absl::Status CheckSamples(const void* samples, size_t bytes);
  // What every rank keeps and how long its steps took since the last call, by rank.
  absl::StatusOr<std::vector<weft_shard_rank_report_t>> Report();

 private:
  absl::StatusOr<Digest> DigestOfParam(int param);
  absl::StatusOr<Digest> DigestOfState(int param) const;
  absl::Status ExplainCopies(const char* call, const Difference& difference);
  absl::StatusOr<weft_shard_rank_report_t> OwnReport();

  ContextCore& core_;
  ParamAccess& params_;
  StepClock& clock_;
  int64_t steps_unverified_ = 0;
};

}  // namespace weft
