// A shard context as a checkpoint sees it: its params under the names of the whole model, and its numbers.
//
// Thread-safety: as Context's step calls.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "shard/checkpoint/state_source.h"
#include "shard/context/context.h"

namespace weft {

class ContextState : public StateSource {
 public:
  // `context` outlives it, and is finalized. The errors of StateAccess::Part.
  static absl::StatusOr<ContextState> Of(Context& context);

  const std::vector<SavedTensor>& tensors() const override { return tensors_; }

  std::optional<weft_optimizer_kind_t> OptimizerOf(size_t tensor) const override;
  std::vector<SavedGroup> Groups() const override;

  absl::StatusOr<StatePart> Part(size_t tensor, weft_shard_state_kind_t kind) override;

  absl::StatusOr<std::shared_ptr<const void>> Hold(int64_t until_ns) override {
    return context_->state().Hold(until_ns);
  }

  absl::Status BeginWriting() override { return context_->state().AwaitUnheld(); }

  bool Holds(weft_shard_state_kind_t kind) const override { return kind != WEFT_SHARD_STATE_VALUE; }

  absl::Status ReadHeld(size_t tensor, weft_shard_state_kind_t kind, size_t begin, size_t count,
                        void* to) override;
  absl::Status Write(size_t tensor, weft_shard_state_kind_t kind, size_t begin, size_t count,
                     const void* from) override;

  bool HasScalars() const override { return true; }

  absl::StatusOr<weft_shard_state_scalars_t> Scalars() override {
    return context_->state().Scalars();
  }

  absl::Status SetScalars(const weft_shard_state_scalars_t& scalars) override {
    return context_->state().SetScalars(scalars);
  }

  absl::Status Written(uint32_t kinds) override { return context_->state().Written(kinds); }

 private:
  explicit ContextState(Context& context) : context_(&context) {}

  // Of the whole tensor, which this context's param begins with.
  size_t FirstElement(size_t tensor) const;

  Context* context_;
  std::vector<SavedTensor> tensors_;  // by param
};

}  // namespace weft
