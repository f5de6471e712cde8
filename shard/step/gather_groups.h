// The groups in which a context gathers: of all ranks, and of those between which HYBRID_SHARD shards or HPZ keeps parts.
//
// They are apart from the group that reduces, so that gathers and reductions do not wait for each other.
//
// Thread-safety: set in finalize, constant from then on. Closes the groups when it goes.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "comm/group/process_group.h"
#include "shard/layout/layout.h"

namespace weft {

class GatherGroups {
 public:
  GatherGroups() = default;
  GatherGroups(const GatherGroups&) = delete;
  GatherGroups& operator=(const GatherGroups&) = delete;

  ~GatherGroups() {
    ForEach([](ProcessGroup& group) { group.Close(); });
  }

  // Each may be nullptr if nothing is gathered in it.
  void Set(std::shared_ptr<ProcessGroup> all, std::shared_ptr<ProcessGroup> inner) {
    all_ = std::move(all);
    inner_ = std::move(inner);
  }

  bool any() const { return all_ != nullptr || inner_ != nullptr; }

  // Where params of this placement are gathered.
  ProcessGroup& For(const Placement& placement) const {
    return placement.replicated ? *inner_ : *all_;
  }

  ProcessGroup& inner() const { return *inner_; }

  // Those that there are.
  void ForEach(const std::function<void(ProcessGroup&)>& visit) const {
    if (all_ != nullptr) visit(*all_);
    if (inner_ != nullptr) visit(*inner_);
  }

 private:
  std::shared_ptr<ProcessGroup> all_;
  std::shared_ptr<ProcessGroup> inner_;
};

}  // namespace weft
