// How groups have ended that this process has closed: said until all islands have settled on it, as nobody here has the group any more
// who would say it again.
//
//   words.Add(record, epoch);                         // the group is closed, and has ended
//   words.Drop([&](uint64_t group_id) { ... }, epoch);   // those that have settled, or whose epoch is over
//   words.Say(tell);                                  // who speaks for the island
//   if (const FailureRecord* word = words.first()) ...   // who does not: posts one at a time
//   if (words.empty()) ...                            // this process may leave
//
// Thread-safety: none; the watch's lock. At most as many as islands tell each other at a time; the oldest makes room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "comm/agent/island_protocol.h"
#include "comm/agent/island_relay.h"

namespace weft {

class LastWords {
 public:
  static constexpr size_t kWordsMax = IslandRelay::kGroupsMax;

  void Add(FailureRecord record, uint32_t epoch);

  void Drop(const std::function<bool(uint64_t group_id)>& settled, uint32_t epoch);

  // Tells those that were not told yet; again those for which there was no room (OUT_OF_MEMORY). True if any was taken.
  bool Say(const std::function<absl::Status(const FailureRecord& record)>& tell);

  // Another speaker has begun, who knows none of them.
  void SayAgain();

  const FailureRecord* first() const { return words_.empty() ? nullptr : &words_.front().record; }

  bool empty() const { return words_.empty(); }

 private:
  struct Word {
    FailureRecord record;
    uint32_t epoch = 0;
    bool said = false;
  };

  std::deque<Word> words_;
};

}  // namespace weft
