// The gathers of units: each starts when this rank's part of the unit is there and those before it have started.
//
//   gathers.Add(unit, whole, kept_part);
//   WEFT_RETURN_IF_ERROR(gathers.StartReady([&](int unit) -> Works& { return works[unit]; }).status());
//   if (gathers.Has(unit)) return Works{gathers.first()};             // what to wait for before StartReady is asked again
//
// A part that rests in memory, or that HPZ has kept, is there. One that is in a file (part_source.h) is read to where it lies in the gathered
// unit, which is then gathered in place. Gathers start in one order on all ranks, so one whose part has come waits for those before it.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "shard/layout/extent_calls.h"
#include "shard/layout/layout.h"
#include "shard/layout/part_source.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/step/gather_groups.h"
#include "shard/step/purposes.h"
#include "shard/step/update_gathers.h"

namespace weft {

class UnitGathers {
 public:
  // All outlive this.
  UnitGathers(const Layout& layout, const Storage& storage, const ExtentCalls& calls,
              const std::vector<UnitSpec>& units, const Purposes& purposes,
              const GatherGroups& groups);
  UnitGathers(const UnitGathers&) = delete;
  UnitGathers& operator=(const UnitGathers&) = delete;

  // Where parts come from that do not rest in memory. Outlives this; nullptr: all do.
  void SetParts(PartSource* parts) { parts_ = parts; }

  // The unit is to be gathered to `whole`: from the parts that HPZ's ranks have kept of it, if this one's is not nullptr.
  void Add(int unit, std::byte* whole, const std::byte* kept_part);

  // Starts those whose turn it is, and adds their works to those of their units. False if others still wait for their parts. An error is one of
  // starting a gather, or failure(); both name the unit.
  absl::StatusOr<bool> StartReady(absl::FunctionRef<Works&(int unit)> works_of);

  // The unit's gather has been added and not started.
  bool Has(int unit) const;

  // What the first of those that have not started waits for. There is one, and StartReady has been asked.
  WorkRef first() const { return waiting_.front().fetch; }

  // Not Ok if parts cannot be read any more, which no other rank knows.
  absl::Status failure() const { return parts_ == nullptr ? absl::OkStatus() : parts_->failure(); }

  // Their groups have ended: whoever waits for a part of those that have not started goes on, and finds that they cannot start. Waits for
  // copies of a few MiB, as Drop does.
  void Cancel();
  // Forgets those that have not started; nothing is written to where they would have been gathered.
  void Drop();

 private:
  struct Waiting {
    int unit = 0;
    std::byte* whole = nullptr;
    const std::byte* kept_part = nullptr;
    std::shared_ptr<PartFetch> fetch;  // nullptr: its part is there
  };

  absl::Status Start(const Waiting& gather, Works& works) const;
  // What this rank gives to a gather to `whole`.
  const std::byte* OwnPart(const Extent& extent, const std::byte* whole) const;

  const Layout& layout_;
  const Storage& storage_;
  const ExtentCalls& calls_;
  const std::vector<UnitSpec>& specs_;
  const Purposes& purposes_;
  const GatherGroups& groups_;
  PartSource* parts_ = nullptr;
  std::vector<Waiting> waiting_;  // in the order in which they start
};

}  // namespace weft
