// A process group that leaves everything to another one, for those that change a call or two of it.
//
//   class Counted final : public ForwardingGroup {
//    public:
//     using ForwardingGroup::ForwardingGroup;
//     absl::StatusOr<WorkRef> Start(const Collective& call) override { ++count; return group().Start(call); }
//   };
//
// Messages, shared blocks and reconfiguring are not forwarded: they are refused as ProcessGroup does.
// Thread-safety: the group's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "comm/group/process_group.h"

namespace weft {

class ForwardingGroup : public ProcessGroup {
 public:
  explicit ForwardingGroup(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }

  int size() const override { return group_->size(); }

  const std::string& name() const override { return group_->name(); }

  int world_rank(int rank) const override { return group_->world_rank(rank); }

  absl::Status Run(const Collective& call) override { return group_->Run(call); }

  absl::StatusOr<WorkRef> Start(const Collective& call) override { return group_->Start(call); }

  absl::Status Refuse(std::optional<OpKind> refused, std::string_view reason) override {
    return group_->Refuse(refused, reason);
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override {
    return group_->Split(color, key, options);
  }

  std::string Explain(const Collective& call, BufferKind buffers) const override {
    return group_->Explain(call, buffers);
  }

  GroupStats stats() const override { return group_->stats(); }

  uint64_t sequence() const override { return group_->sequence(); }

  void SetTimeout(int64_t timeout_ns) override { group_->SetTimeout(timeout_ns); }

  absl::Status error() override { return group_->error(); }

  void Abort(std::string_view reason) override { group_->Abort(reason); }

  void Fail(const absl::Status& cause) override { group_->Fail(cause); }

  NoticeBoard* notices() override { return group_->notices(); }

  void Close() override { group_->Close(); }

 protected:
  ProcessGroup& group() const { return *group_; }

 private:
  const std::shared_ptr<ProcessGroup> group_;
};

}  // namespace weft
