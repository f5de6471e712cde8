// What the works of a node group have in common: whose they are, and who moves them.
//
// Thread-safety: as in Work; how they end as in CallbackWork.
#pragma once

#include <memory>
#include <utility>

#include "comm/group/callback_work.h"

namespace weft {

class NodeGroup;

class GroupWork : public CallbackWork {
 public:
  bool Test() override;
  const void* moved_with() const override;
  void LeaveToProgress() override;

 protected:
  explicit GroupWork(std::shared_ptr<NodeGroup> group) : group_(std::move(group)) {}

  NodeGroup& group() const { return *group_; }

 private:
  const std::shared_ptr<NodeGroup> group_;
};

}  // namespace weft
