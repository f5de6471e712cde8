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

// The forward of a unit: pre_forward when it is made, post_forward when it goes, also by an exception; the ShardStep then
// aborts the step.
class ForwardScope {
 public:
  explicit ForwardScope(const ShardUnit& unit, void* stream = nullptr)
      : unit_(unit.get()), stream_(stream) {
    unit.PreForward(stream);
  }

  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

  ~ForwardScope() { (void)weft_shard_post_forward(unit_, stream_); }

 private:
  weft_shard_unit_t unit_;
  void* stream_;
};

// The backward of a unit: pre_backward when it is made, post_backward when it goes. Errors of post_backward show in the
// calls that follow.
class BackwardScope {
 public:
  explicit BackwardScope(const ShardUnit& unit, void* stream = nullptr)
      : unit_(unit.get()), stream_(stream) {
    unit.PreBackward(stream);
  }

  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

  ~BackwardScope() { (void)weft_shard_post_backward(unit_, stream_); }

 private:
  weft_shard_unit_t unit_;
  void* stream_;
};

// One step of a context, which it borrows. If it is destroyed without End(), as by an exception, it aborts the step, so that
// the other ranks do not wait for this one until their deadline; the group is then poisoned.
class ShardStep {
 public:
  explicit ShardStep(const ShardContext& context, weft_shard_mode_t mode = WEFT_SHARD_TRAIN,
                     std::uint64_t tag = 0)
      : context_(context.get()) {
    Check(weft_shard_step_begin(context_, mode, tag));
  }

  ShardStep(const ShardStep&) = delete;
  ShardStep& operator=(const ShardStep&) = delete;

  ~ShardStep() {
    if (open_) (void)weft_shard_abort_step(context_, "a step was left before its end");
  }

  // In place of the step's micro-batches, for which this rank has no data. Returns how many ranks have some; with 0
  // the step has ended. Collective.
  int Join() {
    int active = 0;
    Check(weft_shard_join(context_, &active));
    if (active == 0) open_ = false;
    return active;
  }

  // Waits for all reductions. Collective.
  weft_shard_step_result_t Finish(void* stream = nullptr) const {
    weft_shard_step_result_t result = {};
    result.struct_size = sizeof(result);
    Check(weft_shard_finish(context_, stream, &result));
    return result;
  }

  // Updates the params with the context's optimizer, gradients clipped to norm_max unless it is 0. Collective.
  weft_shard_update_result_t Update(double learning_rate, double norm_max = 0) const {
    weft_shard_update_t update = {};
    update.struct_size = sizeof(update);
    update.learning_rate = learning_rate;
    update.norm_max = norm_max;
    weft_shard_update_result_t result = {};
    result.struct_size = sizeof(result);
    Check(weft_shard_optimizer_step(context_, &update, &result));
    return result;
  }

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
