// What a checkpoint needs of a context: where this rank keeps each state of a param, the numbers that belong to no param, and
// that all of it was written by somebody else.
//
//   StateAccess state(core, params, optimizer);
//   WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part, state.Part(param, WEFT_SHARD_STATE_MAIN));
//   ... read or write part.data ...
//   WEFT_RETURN_IF_ERROR(state.Written(WEFT_SHARD_STATE_ALL));
//
// Part and Scalars go on working after a failure, in whatever step it came: what a rank keeps changes in updates only, and an
// update is carried through once it was begun. (The one that cannot be is refused, see OptimizerDriver::torn.)
//
// Thread-safety: of the thread that makes step calls.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "weft/shard_state.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"
#include "shard/context/optimizer_driver.h"
#include "shard/context/param_access.h"

namespace weft {

class StateAccess {
 public:
  // All outlive this.
  StateAccess(ContextCore& core, ParamAccess& params, OptimizerDriver& optimizer)
      : core_(core), params_(params), optimizer_(optimizer) {}

  // What this rank keeps of that state of a param, and which of it it is to write. Waits for updated params on their way.
  absl::StatusOr<weft_shard_state_part_t> Part(int param, weft_shard_state_kind_t kind) {
    return PartFor("state_part", param, kind);
  }

  // Elements of the param, of its part. INVALID_ARGUMENT if they are not.
  absl::Status Read(int param, weft_shard_state_kind_t kind, const OwnedElements& elements,
                    void* to);
  // Waits until nobody holds the state. Written() is still to be called.
  absl::Status Write(int param, weft_shard_state_kind_t kind, const OwnedElements& elements,
                     const void* from);
  // While it lives no optimizer state changes, and any thread may call ReadHeld, also in the middle of a step: updates, and whatever else
  // would change it, wait, until that time on MonotonicNs's clock at most. nullptr without an optimizer.
  absl::StatusOr<std::shared_ptr<const void>> Hold(
      int64_t until_ns = std::numeric_limits<int64_t>::max());
  // Until nobody holds it: for whoever is about to write where Part() has told.
  absl::Status AwaitUnheld();

  // Until nobody holds it, for whoever is about to destroy the context. As ContextCore::AwaitReaders.
  absl::Status AwaitReaders() { return core_.AwaitReaders(); }

  // Of MAIN or a moment.
  absl::Status ReadHeld(int param, weft_shard_state_kind_t kind, const OwnedElements& elements,
                        void* to) const;
  absl::StatusOr<weft_shard_state_scalars_t> Scalars();
  // Between steps.
  absl::Status SetScalars(const weft_shard_state_scalars_t& scalars);
  // This rank's parts of all params were written, of these kinds. Params that are unsharded at rest and sharded in the
  // optimizer are gathered from their owners. Collective.
  absl::Status Written(uint32_t kinds);

 private:
  // Ok between steps, after finish, and after a failure; else why nothing can be read.
  absl::Status CheckReadable(const char* call) const WEFT_REQUIRES(core_.mutex);
  // As Part, for a call of that name.
  absl::StatusOr<weft_shard_state_part_t> PartFor(const char* call, int param,
                                                  weft_shard_state_kind_t kind);
  // Before main copies are told, read or held.
  absl::Status AwaitIfOld();
  absl::Status CheckWithin(const char* call, int param, const OwnedElements& elements,
                           const weft_shard_state_part_t& part) const;
  bool Failed() const WEFT_REQUIRES(core_.mutex);
  // Until no gather of updated params writes this one; whether all of them came.
  bool WaitForGathers(int param);

  ContextCore& core_;
  ParamAccess& params_;
  OptimizerDriver& optimizer_;
};

}  // namespace weft
