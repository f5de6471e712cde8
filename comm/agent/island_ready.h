// Which processes of an island wait for a new membership, and what the one that speaks for it answers, where all of them share pages.
//
//   IslandReady ready(block, process_count, process);
//   const uint32_t attempt = ready.Ask(epoch, deadline_ns);       // this process waits for the membership after that epoch
//   ... until the island's memory has it, or
//   if (std::optional<IslandReady::Answer> answer = ready.AnswerTo(attempt)) ...    // there will be none
//   ready.Withdraw();
//
//   ready.WishOf(other); ready.Say(other, attempt, {WEFT_NO_QUORUM});               // who speaks
//
// A wish counts for one epoch: one that its process has not withdrawn yet, when the epoch is over, is none.
//
// Thread-safety: Ask and Withdraw by one thread of the process at a time; the rest by any. The block is borrowed; zeroed pages have no
// wishes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/types.h"

namespace weft {

class IslandReady {
 public:
  struct Wish {
    uint32_t attempt = 0;  // of the process, from 1
    uint32_t epoch = 0;
    int64_t deadline_ns = 0;
  };

  struct Answer {
    weft_result_t result = WEFT_SUCCESS;
    int world_rank = -1;  // to be named; -1: none
  };

  static size_t BytesFor(int process_count);

  // `block`: BytesFor() bytes, aligned to a cache line.
  IslandReady(std::byte* block, int process_count, int process)
      : block_(block), process_count_(process_count), process_(process) {}

  int process_count() const { return process_count_; }

  uint32_t Ask(uint32_t epoch, int64_t deadline_ns);
  void Withdraw();
  std::optional<Answer> AnswerTo(uint32_t attempt) const;

  std::optional<Wish> WishOf(int process) const;
  void Say(int process, uint32_t attempt, const Answer& answer);

 private:
  enum Word { kAttempt, kEpoch, kDeadline, kAnswer };

  std::atomic<uint64_t>& At(int process, Word word) const;

  std::byte* const block_;
  const int process_count_;
  const int process_;
  uint32_t asked_ = 0;
};

}  // namespace weft
