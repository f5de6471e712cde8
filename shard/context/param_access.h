// Params outside of the calls of a step: where they are, loading and reading them, copying them to all ranks.
//
//   ParamAccess params(core);
//   WEFT_RETURN_IF_ERROR(params.Load(param, values, ParamAccess::kEveryRank));
//   WEFT_ASSIGN_OR_RETURN(const ParamView view, params.View(param));
//
// Thread-safety: View from any thread, the rest from the one that makes step calls.
#pragma once

#include <cstddef>
#include <utility>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"

namespace weft {

struct ParamView {
  void* data = nullptr;
  void* grad = nullptr;
  size_t count = 0;
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_dtype_t grad_dtype = WEFT_FLOAT32;
  bool grad_unset = false;  // grad holds nothing yet
};

class ParamAccess {
 public:
  // `core` outlives this.
  explicit ParamAccess(ContextCore& core) : core_(core) {}

  static constexpr int kEveryRank = -1;

  absl::StatusOr<ParamView> View(int param);
  // Whether View has addresses of the unit's params now.
  bool IsUnsharded(int unit);
  // What the unit's params take while they are unsharded; 0 before finalize and where they are not sharded at rest.
  size_t UnshardedBytes(int unit);
  // What this rank owns of a param at rest: elements [begin, begin + view.count) of it; no data if it is offloaded.
  absl::StatusOr<std::pair<ParamView, size_t>> OwnPart(int param);
  // `values` [count] of rank `root`, or of this rank if root is kEveryRank, become the param's. Collective.
  absl::Status Load(int param, const void* values, int root);
  // Writes the whole param to `values` [count] of rank `root`, or of every rank if root is kEveryRank. Collective.
  absl::Status Read(int param, void* values, int root);
  // All params become those of rank `root`. Collective.
  absl::Status Broadcast(int root);
  // The own parts of all params were written: those that are unsharded at rest are gathered. Collective.
  absl::Status Updated();

 private:
  // Until no gather of updated params reads this rank's part of the param, or puts it back where it was.
  void WaitForUpdates(int param);
  absl::Status CheckRoot(const char* call, int root) const;
  absl::Status LoadFrom(int param, const void* values, int root);
  absl::Status CompareLoaded(int param, const void* values);
  bool IsOffloaded(int param) const;
  // Of this rank's part of a param that is offloaded; `call` gives up, so that no rank waits for this one, if the disk fails.
  absl::Status ReadOffloaded(const char* call, int param, const OwnedElements& elements, void* to);
  absl::Status WriteOffloaded(const char* call, int param, const OwnedElements& elements,
                              const void* from);
  absl::Status StoreElements(int param, size_t begin, size_t count, const std::byte* values);
  absl::Status GatherParam(int param, void* values, int root);
  absl::Status BroadcastOffloaded(int param, int root);
  absl::Status BroadcastElements(ProcessGroup& among, int space, Part part, int root);

  ContextCore& core_;
};

}  // namespace weft
