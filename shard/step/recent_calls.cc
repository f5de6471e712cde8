#include "shard/step/recent_calls.h"

#include <algorithm>

#include "base/text.h"

namespace weft {

const char* CallName(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kMicrobatchBegin:
      return "microbatch_begin";
    case Event::Kind::kPreForward:
      return "pre_forward";
    case Event::Kind::kPostForward:
      return "post_forward";
    case Event::Kind::kPreBackward:
      return "pre_backward";
    case Event::Kind::kPostBackward:
      return "post_backward";
    case Event::Kind::kUnshard:
      return "unshard_start";
    case Event::Kind::kReshard:
      return "reshard";
    case Event::Kind::kMicrobatchEnd:
      return "microbatch_end";
    case Event::Kind::kFinish:
      return "finish";
    case Event::Kind::kStepBegin:
      return "step_begin";
    case Event::Kind::kJoin:
      return "join";
    case Event::Kind::kUnshardWait:
      return "unshard_wait";
    case Event::Kind::kGradReady:
      return "grad_ready";
    case Event::Kind::kReduceWait:
      return "reduce_wait";
    case Event::Kind::kOptimizerStep:
      return "optimizer_step";
    case Event::Kind::kStepEnd:
      return "step_end";
  }
  return "";
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
