// The steps of a shard context with RAII: scopes of units in forward and backward, and of a step. Part of
// weft/shard.hpp, which has an example.
//
// Everything throws weft::Error if the call that it makes fails; destructors do not.
//
// Thread rule: as shard_step.h says of the calls.
#ifndef WEFT_SHARD_STEP_HPP_
#define WEFT_SHARD_STEP_HPP_

#include <cstdint>

#include "weft/shard.hpp"
#include "weft/shard_step.h"

namespace weft {
inline namespace interface_0 {

// A use of a unit: calls Pre when it is made, Post when it goes.
template <auto Pre, auto Post>
class UnitScope {
 public:
  explicit UnitScope(const ShardUnit& unit, void* stream = nullptr)
      : unit_(unit.get()), stream_(stream) {
    Check(Pre(unit_, stream_));
  }

  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

  ~UnitScope() { (void)Post(unit_, stream_); }

 private:
  weft_shard_unit_t unit_;
  void* stream_;
};

// The forward of a unit: pre_forward when it is made, post_forward when it goes, also by an exception; the ShardStep then
// aborts the step.
using ForwardScope = UnitScope<weft_shard_pre_forward, weft_shard_post_forward>;

// The backward of a unit: pre_backward when it is made, post_backward when it goes. Errors of post_backward show in the
// calls that follow.
using BackwardScope = UnitScope<weft_shard_pre_backward, weft_shard_post_backward>;

// One step of a context, which it borrows. If it is destroyed without End(), as by an exception, it aborts the step, so that
// the other ranks do not wait for this one until their deadline; the group is then poisoned.
class ShardStep {
 public:
  explicit ShardStep(const ShardContext& context, weft_shard_mode_t mode = WEFT_SHARD_TRAIN,
                     std::uint64_t tag = 0)
      : context_(context.get()) {
    const weft_shard_step_t step = {sizeof step, mode, tag, nullptr};
    Check(weft_shard_step_begin(context_, &step));
  }

  ShardStep(const ShardStep&) = delete;
  ShardStep& operator=(const ShardStep&) = delete;

  ~ShardStep() {
    if (open_) (void)weft_shard_abort_step(context_, "a step was left before its end");
  }

  // In place of the step's micro-batches, for which this rank has no data. Returns how many ranks have some; with 0
  // the step has ended. Collective.
  int Join(void* stream = nullptr) {
    const int active = internal::Returned<int>(weft_shard_join, context_, stream);
    if (active == 0) open_ = false;
    return active;
  }

  // Waits for all reductions. Collective.
  weft_shard_step_result_t Finish(void* stream = nullptr) const {
    return internal::Filled<weft_shard_step_result_t>(weft_shard_finish, context_, stream);
  }

  // The norm of this step's gradients, after Finish(); add other contexts' with weft_shard_norm_add,
  // other ranks' with weft_shard_norm_sum. Collective.
  weft_shard_norm_t GradientNorm(void* stream = nullptr) const {
    return internal::Filled<weft_shard_norm_t>(weft_shard_gradient_norm, context_, stream);
  }

  // Updates the params with the context's optimizer, as `update` says. Collective.
  weft_shard_update_result_t Update(const weft_shard_update_t& update) const {
    return internal::Filled<weft_shard_update_result_t>(weft_shard_optimizer_step, context_,
                                                        &update);
  }

  // Updates the params with the context's optimizer, gradients clipped to norm_max unless it is 0. Collective.
  weft_shard_update_result_t Update(double learning_rate, double norm_max = 0) const {
    weft_shard_update_t update = {};
    update.struct_size = sizeof(update);
    update.learning_rate = learning_rate;
    update.norm_max = norm_max;
    return Update(update);
  }

  // In place of Update(): nothing is updated, on any rank. Collective.
  void DropGradients(void* stream = nullptr) const {
    Check(weft_shard_drop_gradients(context_, stream));
  }

  // A step of training of a context with an optimizer ends after Update() or DropGradients().
  void End() {
    Check(weft_shard_step_end(context_));
    open_ = false;
  }

 private:
  weft_shard_context_t context_;
  bool open_ = true;
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SHARD_STEP_HPP_
