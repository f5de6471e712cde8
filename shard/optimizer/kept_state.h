// What an optimizer keeps of this rank's params from update to update, as others see it: read and written by param, compared by digests,
// and main copies that follow params which somebody else has written.
//
//   WEFT_RETURN_IF_ERROR(kept.Read(storage, param, WEFT_SHARD_STATE_MOMENT1, {begin, count}, to));
//   kept.ParamWritten(param);                          // its main copy is made from it before the next update
//
//   kept.BeginUpdate();                                // an update:
//   for (windows) { store().Visit(...); kept.WidenWritten(storage, extent, window); ... }
//
// A main copy is made from its param when it is first asked for, or updated. Those of others are more than their params say, and stay.
//
// Thread-safety: one thread at a time; ReadHeld from another one that has a hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/shard_state.h"

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shard/checks/digest.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/state_holds.h"
#include "shard/optimizer/state_store.h"

namespace weft {

class KeptState {
 public:
  // Registry and layout outlive it. `groups` are those that the params name.
  KeptState(const std::vector<OptimizerGroup>& groups, const Registry& registry,
            const Layout& layout, std::unique_ptr<StateStore> store);

  // Of updates.
  StateStore& store() { return *store_; }

  const StateStore& store() const { return *store_; }

  size_t bytes() const { return store_->bytes(); }

  bool resident() const { return store_->resident(); }

  // Whether there is a state of that kind for the param, on this rank or on others; WEFT_SHARD_STATE_VALUE, here and below, of params that
  // are offloaded.
  bool Keeps(int param, weft_shard_state_kind_t kind) const;

  const StateNeeds& NeedsOf(int param) const { return needs_[static_cast<size_t>(param)]; }

  // Elements of the param that this rank keeps something of.
  OwnedElements PartOf(int param) const;

  // Where params are that this rank updates, from element `begin` of the space on: with their state, whose window is visited, or where they rest.
  std::byte* ParamsAt(const Storage& storage, int extent, size_t begin) const;
  // Where this rank's part of it is for good; nullptr if it has none, or it is not resident. Whoever asks may read and write it.
  void* Tell(const Storage& storage, int param, weft_shard_state_kind_t kind);
  // Elements of the param, within its part. An error is the store's: updates fail too from then on.
  absl::Status Read(const Storage& storage, int param, weft_shard_state_kind_t kind,
                    const OwnedElements& elements, void* to);
  absl::Status Write(const Storage& storage, int param, weft_shard_state_kind_t kind,
                     const OwnedElements& elements, const void* from);
  // Covers all kinds of the param but its value; a main copy that is to be made anew does not count.
  absl::StatusOr<Digest> DigestOf(int param);
  // Of its value, as it would have in memory.
  absl::StatusOr<Digest> ValueDigestOf(int param);

  // Whether main copies are to be made anew before they can be told, read or held: that changes them, so AwaitUnheld() first.
  bool MainsAreOld();
  // While it lives nothing changes, and another thread may call ReadHeld. As StateHolds::Take.
  absl::StatusOr<std::shared_ptr<const void>> Hold(const Storage& storage, int64_t until_ns);
  absl::Status ReadHeld(int param, weft_shard_state_kind_t kind, const OwnedElements& elements,
                        void* to);

  // As StateHolds::AwaitNone. Before updates, and whatever else changes what is kept.
  absl::Status AwaitUnheld(absl::FunctionRef<absl::Status()> look) {
    return holds_.AwaitNone(look);
  }

  // The param was written by somebody else, or all were.
  void ParamWritten(int param);
  void ParamsWritten();
  // The main copies were written too, by whoever was told where they are: they count. One that nobody was ever told of is
  // still made from its param.
  void MainsWritten();

  // From now on all main copies count, once they were widened where WidenWritten has been.
  void BeginUpdate();
  // Of a window, whether some of an extent's elements were written since the last update; and while it is visited, makes their main copies.
  bool IsWritten(int extent, const StateWindow& window);
  void WidenWritten(const Storage& storage, int extent, const StateWindow& window);

 private:
  // Of a param that has none nothing is looked at.
  struct MainCopy {
    bool stale = true;    // no more than the param says; ranks agree on this alone
    bool made = false;    // from the param as it is
    bool known = false;   // somebody was told where it is, or has written it
    bool widens = false;  // in the update that was begun
  };

  // Elements of the space, of one param.
  struct Elements {
    int extent = 0;
    size_t begin = 0;
    size_t count = 0;
  };

  Elements KeptOf(int param) const;
  // Those that are in the window; none if they are of another extent.
  static Elements Within(const Elements& elements, const StateWindow& window);
  absl::Status ReadKept(int param, weft_shard_state_kind_t kind, const OwnedElements& elements,
                        void* to) WEFT_REQUIRES(mutex_);
  // Visits all windows that have some of these elements, in order.
  absl::Status ForEachWindow(const Elements& elements, bool changes,
                             absl::FunctionRef<void(const Elements& here)> body)
      WEFT_REQUIRES(mutex_);
  bool IsOld(int param) const WEFT_REQUIRES(mutex_);
  bool AnyIsOld() const WEFT_REQUIRES(mutex_);
  // All that are old, from their params.
  absl::Status MakeMains(const Storage& storage) WEFT_REQUIRES(mutex_);
  void Widen(const Storage& storage, const Elements& here) const;

  const Registry& registry_;
  const Layout& layout_;
  std::vector<StateNeeds> needs_;             // by param
  std::vector<std::vector<int>> widenables_;  // params with main copies, by extent
  const std::unique_ptr<StateStore> store_;
  StateHolds holds_;
  Mutex mutex_;
  std::vector<MainCopy> mains_ WEFT_GUARDED_BY(mutex_);  // by param
};

}  // namespace weft
