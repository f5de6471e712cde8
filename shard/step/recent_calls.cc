#include "shard/step/recent_calls.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace weft {

const char* CallName(Event::Kind kind) {
  // By number of the kind.
  constexpr const char* kNames[] = {"microbatch_begin", "pre_forward",    "post_forward",
                                    "pre_backward",     "post_backward",  "unshard_start",
                                    "reshard",          "microbatch_end", "finish",
                                    "step_begin",       "join",           "unshard_wait",
                                    "grad_ready",       "reduce_wait",    "gradient_norm",
                                    "optimizer_step",   "drop_gradients", "step_end"};
  static_assert(std::size(kNames) == static_cast<size_t>(Event::Kind::kStepEnd) + 1);
  return kNames[static_cast<size_t>(kind)];
}

std::string RecentCalls::TextOf(const Event& event) const {
  const char* const call = CallName(event.kind);
  switch (event.kind) {
    case Event::Kind::kMicrobatchBegin:
    case Event::Kind::kMicrobatchEnd:
      return StrCat(call, " ", event.index);
    case Event::Kind::kGradReady:
      return StrCat(call, " ", registry_.params()[static_cast<size_t>(event.index)].name);
    case Event::Kind::kUnshardWait:
    case Event::Kind::kReduceWait:
      break;
    default:
      if (!event.UsesUnit()) return call;
  }
  return StrCat(call, " ", registry_.units()[static_cast<size_t>(event.index)].name);
}

std::string RecentCalls::Last() const {
  return count_ == 0 ? "" : TextOf(events_[(count_ - 1) % kKept]);
}

std::string RecentCalls::List() const {
  if (count_ == 0) return "none";
  std::string text;
  const uint64_t kept = std::min<uint64_t>(count_, kKept);
  for (uint64_t i = count_ - kept; i < count_; ++i)
    absl::StrAppend(&text, text.empty() ? "" : ", ", TextOf(events_[i % kKept]));
  return text;
}

}  // namespace weft
