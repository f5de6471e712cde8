// Params of kind OWN: weft's optimizer leaves them to the caller, between its step and the step's end.
//
//   turn.Begin(/*due=*/true);                           // optimizer_step has scaled their gradients
//   if (turn.HasBucket(bucket)) ...                     // gathered when the caller says that it has updated them
//   turn.Updated();                                     // params_updated
//   if (turn.due()) ...                                 // step_end: forgotten
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <span>
#include <vector>

#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/optimizer/param_groups.h"

namespace weft {

class CallersTurn {
 public:
  CallersTurn() = default;

  CallersTurn(std::span<const OptimizerGroup> groups, const Registry& registry,
              const Layout& layout)
      : buckets_(layout.buckets.size(), false) {
    for (size_t param = 0; param < registry.params().size(); ++param) {
      const ParamSpec& spec = registry.params()[param];
      const int bucket = layout.places[param].bucket;
      if (bucket < 0 || groups[static_cast<size_t>(spec.group)].kind != WEFT_OPTIMIZER_OWN)
        continue;
      if (first_param_ < 0) first_param_ = static_cast<int>(param);
      buckets_[static_cast<size_t>(bucket)] = true;
    }
  }

  // The first of these params; -1 if there is none.
  int first_param() const { return first_param_; }

  // Has the bucket such a param?
  bool HasBucket(int bucket) const {
    return !buckets_.empty() && buckets_[static_cast<size_t>(bucket)];
  }

  // Until End the caller's updates are of these params only. `due`: it has to update them. Nothing if there are none.
  void Begin(bool due) {
    begun_ = first_param_ >= 0;
    due_ = begun_ && due;
  }

  void Updated() { due_ = false; }

  void End() { begun_ = due_ = false; }

  bool begun() const { return begun_; }

  bool due() const { return due_; }

 private:
  std::vector<bool> buckets_;
  int first_param_ = -1;
  bool begun_ = false;
  bool due_ = false;
};

}  // namespace weft
