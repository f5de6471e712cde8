// The ranks of a run, and how the group is made anew when one is lost or others join.
//
//   Members members(group);
//   const std::optional<LostRank> lost = LossOf(failure, members.group());
//   if (lost) members.GoOnWithout(*lost);      // "rank 2 (pid 4711) was lost"
//
// Every function but rank, size and group is collective over the ranks that live. They throw WeftFailure.
// The group is borrowed. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_MEMBERS_H_
#define WEFT_TRAINER_MEMBERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/group.h"

#include "trainer/failure.h"

namespace weft::trainer {

// Rank and process of one that is gone.
struct LostRank {
  int world_rank = -1;
  int pid = -1;
};

// The rank to which a failure of an operation of the group is due, if that is the death of one. Local.
std::optional<LostRank> LossOf(const WeftFailure& failure, weft_group_t group);

class Members {
 public:
  explicit Members(weft_group_t group);

  weft_group_t group() const { return group_; }

  size_t rank() const { return rank_; }

  size_t size() const { return size_; }

  // Makes the group anew of the ranks that live. Returns which were lost, as the beginning of a sentence.
  std::string GoOnWithout(const LostRank& lost);

  // How many processes wait to join, at most as many as make `size_most` ranks. Rank 0 looks ten times a second.
  size_t Waiting(size_t size_most);

  // Takes in so many. If they do not come, or die on the way, the others go on as before. Returns what has happened, as the
  // beginning of a sentence.
  std::string TakeIn(size_t count);

 private:
  void AskGroup();

  const weft_group_t group_;
  size_t rank_ = 0;
  size_t size_ = 1;
  std::chrono::steady_clock::time_point asked_;  // by rank 0: who waits
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MEMBERS_H_
