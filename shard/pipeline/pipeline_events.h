// What waits for what when a schedule is run: the graph behind the proof that nothing waits in a
// circle, and behind the times of a simulation.
//
// An action ends after the one before it. A receive ends when its message has come, which is when
// it was sent and the receive was posted: as if every send waited for its receive, the least that a
// transport promises. A receive is posted when the action before the one that needs it begins. A
// send begins when the last one to the same rank in the same direction has been taken. Whatever
// order messages arrive in, they only delay each other along these edges.
//
// Thread-safety: immutable once made.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/pipeline/pipeline_schedule.h"

namespace weft {

class PipelineEvents {
 public:
  static constexpr int kNone = -1;

  // INVALID_ARGUMENT with rank and action for a message that has no other half, or two.
  static absl::StatusOr<PipelineEvents> Of(const PipelineSchedule& schedule);

  // Of action `index` of `rank`: its end.
  int EndOf(int rank, size_t index) const {
    return 2 * (first_[static_cast<size_t>(rank)] + static_cast<int>(index));
  }

  // Of a send: that its message has come. Of a receive: that it is posted.
  int OtherOf(int rank, size_t index) const { return EndOf(rank, index) + 1; }

  int size() const { return static_cast<int>(before_.size()); }

  // What an event waits for; kNone: nothing.
  const std::array<int, 3>& Before(int event) const { return before_[static_cast<size_t>(event)]; }

  // All events, each behind those it waits for. INVALID_ARGUMENT with ranks and actions if some
  // wait in a circle.
  absl::StatusOr<std::vector<int>> InOrder() const;

 private:
  explicit PipelineEvents(const PipelineSchedule& schedule);

  absl::Status Match();
  void AddProgram(int rank);
  void Add(int event, int waits_for);
  std::string DescribeCircle(const std::vector<int>& missing) const;

  const PipelineSchedule& schedule_;
  std::vector<int> first_;  // by rank: actions of the ranks before it
  std::vector<std::array<int, 3>> before_;
};

}  // namespace weft
