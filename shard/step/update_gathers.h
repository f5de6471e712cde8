// The gathers of updated params that are unsharded at rest: each rank has updated its part, the next forward needs all.
//
//   updates.Start(bucket);                      // after the update of its own part
//   Works works = updates.TakeFor(unit);        // pre_forward: what is to be waited for
//
// Thread-safety: none of its own; the context's mutex guards it. Never waits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "comm/group/process_group.h"
#include "shard/layout/extent_calls.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/step/gather_groups.h"
#include "shard/step/purposes.h"

namespace weft {

using Works = std::vector<WorkRef>;

class UpdateGathers {
 public:
  // All outlive this.
  UpdateGathers(const Layout& layout, const Storage& storage, const ExtentCalls& calls,
                const Purposes& purposes, const GatherGroups& groups);

  // Does nothing for a bucket whose params are sharded at rest, or are updated by every rank.
  absl::Status Start(int bucket);

  // Those of a bucket that are under way.
  const Works& Of(int bucket) const { return works_[static_cast<size_t>(bucket)]; }

  // Those of one of the unit's buckets, which the caller is to wait for; empty if there are none left.
  Works TakeFor(int unit);

  void AddUnderWay(Works& works) const;
  void Drop();

  // Gathered since the last call.
  uint64_t TakeBytes() { return std::exchange(bytes_, 0); }

 private:
  const Layout& layout_;
  const Storage& storage_;
  const ExtentCalls& calls_;
  const Purposes& purposes_;
  const GatherGroups& groups_;
  std::vector<Works> works_;                  // by bucket
  std::vector<std::vector<int>> buckets_of_;  // by unit: those that are gathered after updates
  uint64_t bytes_ = 0;
};

}  // namespace weft
