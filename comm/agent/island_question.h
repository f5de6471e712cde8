// A lost connection is a question: does the process at its other end live? Asked of its island, directly or over an island
// that is connected with it, until there is an answer.
//
//   questions.Open(island, pid, start_time, now_ns);
//   questions.ForDue(now_ns, [&](IslandAsk ask) { ... });   // to be sent
//   if (questions.Close(answer)) ...                        // it was open
//
// Thread-safety: owned by one thread. Memory: one question per island.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

#include "comm/agent/island_number_set.h"
#include "comm/agent/island_protocol.h"

namespace weft {

class IslandQuestions {
 public:
  IslandQuestions(int self, int64_t repeat_ns) : self_(self), repeat_ns_(repeat_ns) {}

  // Takes the place of an open question about another process of that island.
  void Open(int island, int32_t pid, uint64_t start_time, int64_t now_ns) {
    open_[island] = {.ask = {.asker = self_,
                             .target = island,
                             .pid = pid,
                             .start_time = start_time,
                             .number = ++numbers_},
                     .next_ns = now_ns};
  }

  // False for an answer to nothing that is open: a late one.
  bool Close(const IslandAnswer& answer) {
    const auto found = open_.find(answer.target);
    if (found == open_.end() || found->second.ask.number != answer.number) return false;
    open_.erase(found);
    return true;
  }

  // It is of no interest any more.
  void Drop(const IslandNumberSet& islands) {
    std::erase_if(open_, [&](const auto& entry) { return islands.Has(entry.first); });
  }

  // What is to be asked now, `via` not chosen yet.
  template <typename Ask>
  void ForDue(int64_t now_ns, const Ask& ask) {
    for (auto& [island, question] : open_) {
      if (now_ns < question.next_ns) continue;
      question.next_ns = now_ns + repeat_ns_;
      ask(question.ask);
    }
  }

  // Asks again at once: there is a new way.
  void Hurry(int64_t now_ns) {
    for (auto& [island, question] : open_)
      question.next_ns = now_ns;
  }

  int64_t NextWakeNs() const {
    int64_t wake_ns = std::numeric_limits<int64_t>::max();
    for (const auto& [island, question] : open_)
      wake_ns = std::min(wake_ns, question.next_ns);
    return wake_ns;
  }

  bool empty() const { return open_.empty(); }

 private:
  struct Question {
    IslandAsk ask;
    int64_t next_ns = 0;
  };

  const int self_;
  const int64_t repeat_ns_;
  uint64_t numbers_ = 0;
  std::map<int, Question> open_;  // by island
};

}  // namespace weft
