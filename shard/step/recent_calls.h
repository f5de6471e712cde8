// The last calls of a context, in words: what a refusal of the next one tells.
//
//   RecentCalls calls(registry);
//   calls.Add({Event::Kind::kPreForward, unit});
//   calls.List();      // "step_begin, microbatch_begin 0, pre_forward block.0"
//
// Thread-safety: none of its own; the context's mutex guards it. Add allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shard/layout/registry.h"
#include "shard/step/event.h"

namespace weft {

class RecentCalls {
 public:
  // `registry` outlives this.
  explicit RecentCalls(const Registry& registry) : registry_(registry) {}

  void Add(const Event& event) { events_[count_++ % kKept] = event; }

  // The call with its unit, param or micro-batch.
  std::string TextOf(const Event& event) const;
  // The last one; empty if there was none.
  std::string Last() const;
  // The last 8, oldest first; "none" if there was none.
  std::string List() const;

 private:
  static constexpr size_t kKept = 8;

  const Registry& registry_;
  std::array<Event, kKept> events_;
  uint64_t count_ = 0;
};

}  // namespace weft
