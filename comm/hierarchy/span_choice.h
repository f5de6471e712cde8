// Which of the schedules that a collective of a group over several islands could take it takes, by a model of the links.
//
//   SpanChoices choices(islands, links);
//   const SpanChoice choice = choices.Of(goal, arithmetic, bytes, MakeLanes);
//   choice.lanes ? lanes in choice.segments : MakeSchedule(choice.algorithm, goal)
//
// Of links that were not measured the choice is a matter of four sizes, which were found on one machine (docs/design/014-several-nodes.md). Of others, all
// candidates are carried out on sizes alone under the model (comm/engine/simulate_schedule.h), and the quickest is taken. That takes about a
// microsecond for each of their messages, once for each size, which are rounded to a quarter of an octave. With more than kSimulatedRanksMax
// ranks the four sizes are used, each in proportion to what a link carries in the time of a message without bytes.
//
// A function of goal, islands and links alone, in whole nanoseconds: ranks who have the same numbers choose alike.
//
// Thread-safety: none; choices are kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

#include "comm/engine/unit_arithmetic.h"
#include "comm/hierarchy/islands.h"
#include "comm/schedule/schedule.h"
#include "comm/select/link_model.h"

namespace weft {

struct SpanChoice {
  bool lanes = false;  // a hierarchy, where the goal has one
  int segments = 1;    // of each lane
  // Else, and where there are no lanes; weft's way to do it where it serves the goal.
  std::string_view algorithm = "direct";

  friend bool operator==(const SpanChoice&, const SpanChoice&) = default;
};

// From which sizes on what is taken, where nothing is simulated.
struct SpanThresholds {
  // An all_reduce goes whole, level by level, where that sends at most so many bytes more than sums that are scattered and gathered: as many as
  // go in the time that a message more takes.
  uint64_t whole_bytes = 8 << 10;
  // Lanes: from so many bytes on, where islands have several ranks, which then send less; of ranks that are alone for the segments.
  uint64_t lanes_bytes = 32 << 10;
  uint64_t lanes_of_one_bytes = 512 << 10;
  // A lane goes in segments of about so many bytes, that its sums are formed while more is on its way, and what is sent and added lies in a
  // cache.
  uint64_t segment_bytes = 256 << 10;

  // The numbers above are those of LinkModel::Default().
  static SpanThresholds Of(const LinkModel& links);

  // `bytes`: of the vector, or of all blocks.
  SpanChoice Choose(const ScheduleGoal& goal, uint64_t bytes, int islands) const;

  friend bool operator==(const SpanThresholds&, const SpanThresholds&) = default;
};

// Null if the goal has no lanes.
using LanesMaker = std::unique_ptr<CollectiveSchedule> (*)(const ScheduleGoal& goal,
                                                           const Islands& islands, int segments);

class SpanChoices {
 public:
  static constexpr int kSimulatedRanksMax = 64;  // as many sources as a kernel adds at once

  // Both are borrowed.
  SpanChoices(const Islands& islands, const LinkModel& links)
      : islands_(islands), links_(links), thresholds_(SpanThresholds::Of(links)) {}

  const LinkModel& links() const { return links_; }

  // Whether candidates for a goal of so many bytes are carried out, or the four sizes are used.
  bool Simulates(const ScheduleGoal& goal, uint64_t bytes) const;

  // Of a goal whose vector, or all blocks of it, has so many bytes.
  SpanChoice Of(const ScheduleGoal& goal, const UnitArithmetic& arithmetic, uint64_t bytes,
                LanesMaker lanes);

 private:
  // Kind, root, bytes of an element and of an accumulator, in which order sums may be formed, bytes.
  using Key = std::tuple<GoalKind, int, size_t, size_t, int, uint64_t>;

  SpanChoice Simulated(const ScheduleGoal& goal, const UnitArithmetic& arithmetic, uint64_t bytes,
                       LanesMaker lanes) const;

  const Islands& islands_;
  const LinkModel& links_;
  const SpanThresholds thresholds_;
  std::map<Key, SpanChoice> kept_;
};

}  // namespace weft
