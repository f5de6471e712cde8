#include "comm/hierarchy/span_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/engine/simulate_schedule.h"
#include "comm/schedule/algorithms.h"

namespace weft {
namespace {

// What a lane is cut into for a simulation.
constexpr int kSegmentCounts[] = {1, 2, 4, 8, 16, 32, 64};
// Smaller ones are all overhead; of larger ones three are more memory than speed is worth.
constexpr uint64_t kSegmentBytesMin = 2 << 10;
constexpr uint64_t kSegmentBytesMax = 4 << 20;
// Of a candidate, all participants together: it takes some hundredths of a second. Those with more are left out.
constexpr uint64_t kOpsMax = 50'000;
constexpr uint64_t kSegmentsMax = 4096;
// One that is quicker by less is not worth another choice for each small change of the links.
constexpr int64_t kBetterPercent = 3;
// Different sizes, roots and types of a job; then they are made once more.
constexpr size_t kChoicesMax = 1024;

// Up to the next of four sizes per octave. Powers of two stay, as messages of 8 KiB must not become larger ones.
uint64_t QuarterOctave(uint64_t bytes) {
  const uint64_t octave = std::bit_floor(std::max<uint64_t>(bytes, 4));
  const uint64_t quarter = octave / 4;
  return octave + (std::max(bytes, octave) - octave + quarter - 1) / quarter * quarter;
}

// Bruck's turns the whole vector round in the end, which no simulation knows, and which takes long where there is much of it.
std::span<const std::string_view> AlgorithmsFor(GoalKind kind, bool large) {
  static constexpr std::string_view kOfAllReduce[] = {"direct", "recursive_doubling",
                                                      "tree_halving"};
  static constexpr std::string_view kOfRooted[] = {"direct", "binomial"};
  static constexpr std::string_view kOfAllGather[] = {"direct", "bruck"};
  static constexpr std::string_view kOfReduceScatter[] = {"direct", "tree_halving"};
  static constexpr std::string_view kOfOthers[] = {"direct"};
  if (kind == GoalKind::kAllReduce) return kOfAllReduce;
  if (kind == GoalKind::kReduce || kind == GoalKind::kBroadcast) return kOfRooted;
  if (kind == GoalKind::kReduceScatter) return kOfReduceScatter;
  if (kind == GoalKind::kAllGather && !large) return kOfAllGather;
  return kOfOthers;
}

// Whether an all_reduce of so many bytes is taken whole: log2 P times the vector against 2 (P - 1) / P.
bool IsWhole(const SpanThresholds& thresholds, uint64_t bytes, int size) {
  const auto ranks = static_cast<uint64_t>(size);
  const auto levels = static_cast<uint64_t>(std::bit_width(ranks - 1));
  return bytes < thresholds.lanes_of_one_bytes &&
         levels * bytes <= thresholds.whole_bytes + 2 * (ranks - 1) * bytes / ranks;
}

uint64_t LaneBytes(uint64_t bytes, int size, int islands) {
  return bytes / static_cast<uint64_t>(size) * static_cast<uint64_t>(islands);
}

// A goal of the same kind with vectors, or equal blocks, of so many bytes in all.
ScheduleGoal Sized(ScheduleGoal goal, uint64_t bytes, size_t element_bytes) {
  const bool blocks = goal.kind == GoalKind::kReduceScatter || goal.kind == GoalKind::kAllGather;
  const uint64_t units = bytes / element_bytes;
  goal.blocks.clear();
  goal.count = blocks ? units / static_cast<uint64_t>(goal.participants) : units;
  goal.count = std::max<uint64_t>(1, goal.count);
  return goal;
}

}  // namespace

SpanThresholds SpanThresholds::Of(const LinkModel& links) {
  const auto in_flight = [](const LinkCost& cost) {
    return static_cast<double>(cost.MessageNs(0)) / cost.ns_per_byte;
  };
  const double scale = in_flight(links.far) / in_flight(LinkModel::Default().far);
  const auto scaled = [scale](uint64_t bytes) {
    const double product = std::round(static_cast<double>(bytes) * scale);
    return static_cast<uint64_t>(std::clamp(product, 1024.0, 1024.0 * 1024 * 1024));
  };
  SpanThresholds thresholds;
  thresholds.whole_bytes = scaled(thresholds.whole_bytes);
  thresholds.lanes_bytes = scaled(thresholds.lanes_bytes);
  thresholds.lanes_of_one_bytes = scaled(thresholds.lanes_of_one_bytes);
  thresholds.segment_bytes =
      std::clamp<uint64_t>(scaled(thresholds.segment_bytes), 64 << 10, 1 << 20);
  return thresholds;
}

SpanChoice SpanThresholds::Choose(const ScheduleGoal& goal, uint64_t bytes, int islands) const {
  const uint64_t segments = LaneBytes(bytes, goal.participants, islands) / segment_bytes;
  SpanChoice choice{.segments = static_cast<int>(std::clamp<uint64_t>(segments, 1, kSegmentsMax))};
  choice.lanes = bytes >= (islands < goal.participants ? lanes_bytes : lanes_of_one_bytes);
  if (goal.kind == GoalKind::kAllReduce && IsWhole(*this, bytes, goal.participants))
    choice.algorithm = "recursive_doubling";
  return choice;
}

bool SpanChoices::Simulates(const ScheduleGoal& goal, uint64_t bytes) const {
  const bool has_choice = goal.kind == GoalKind::kAllReduce || goal.kind == GoalKind::kReduce ||
                          goal.kind == GoalKind::kBroadcast || goal.kind == GoalKind::kAllGather ||
                          goal.kind == GoalKind::kReduceScatter;
  return links_.source != LinkSource::kDefault && has_choice && bytes > 0 &&
         goal.participants <= kSimulatedRanksMax;
}

SpanChoice SpanChoices::Of(const ScheduleGoal& goal, const UnitArithmetic& arithmetic,
                           uint64_t bytes, LanesMaker lanes) {
  if (!Simulates(goal, bytes)) return thresholds_.Choose(goal, bytes, islands_.count());
  const uint64_t rounded = QuarterOctave(bytes);
  const int order = goal.order_free ? 1 : goal.order.pieces() != 0 ? 2 : 0;
  const Key key{goal.kind,
                goal.root,
                arithmetic.BytesOf(UnitForm::kElement),
                arithmetic.BytesOf(UnitForm::kAccumulator),
                order,
                rounded};
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second;
  if (kept_.size() >= kChoicesMax) kept_.clear();
  return kept_[key] = Simulated(goal, arithmetic, rounded, lanes);
}

// What comes first is taken where nothing is better by more than little: large ones in lanes, whose segments lie in a cache while their sums are
// formed, which no simulation knows.
SpanChoice SpanChoices::Simulated(const ScheduleGoal& goal, const UnitArithmetic& arithmetic,
                                  uint64_t bytes, LanesMaker lanes) const {
  const ScheduleGoal sized = Sized(goal, bytes, arithmetic.BytesOf(UnitForm::kElement));
  SpanChoice best = thresholds_.Choose(goal, bytes, islands_.count());
  std::optional<int64_t> best_ns;
  // False: it is too much to try.
  const auto consider = [&](const CollectiveSchedule& schedule, const SpanChoice& choice) {
    if (HasMoreOps(schedule, kOpsMax)) return false;
    const auto cost = SimulateSchedule(schedule, arithmetic, islands_.island_of, links_);
    if (!cost.ok()) return true;
    if (best_ns && cost->end_ns * 100 > *best_ns * (100 - kBetterPercent)) return true;
    best_ns = cost->end_ns;
    best = choice;
    return true;
  };
  const uint64_t lane_bytes = LaneBytes(bytes, goal.participants, islands_.count());
  const auto consider_lanes = [&](int segments) {
    const auto made = lanes(sized, islands_, segments);
    return made != nullptr &&
           consider(*made, {.lanes = true, .segments = segments, .algorithm = best.algorithm});
  };
  const SpanThresholds plain;
  const bool large = bytes >= plain.lanes_of_one_bytes;
  int cached = 0;
  if (large) {
    const uint64_t most = kSegmentCounts[std::size(kSegmentCounts) - 1];
    cached = static_cast<int>(
        std::clamp<uint64_t>(std::bit_floor(lane_bytes / plain.segment_bytes), 1, most));
    (void)consider_lanes(cached);
  }
  for (const std::string_view algorithm : AlgorithmsFor(goal.kind, large)) {
    const auto schedule = MakeSchedule(algorithm, sized);
    if (schedule.ok()) (void)consider(**schedule, {.algorithm = algorithm});
  }
  for (const int segments : kSegmentCounts) {
    if (segments > 1 && lane_bytes / static_cast<uint64_t>(segments) < kSegmentBytesMin) break;
    if (segments != cached && !consider_lanes(segments)) break;
  }
  const uint64_t at_least = std::min(lane_bytes / kSegmentBytesMax, kSegmentsMax);
  best.segments = std::max(best.segments, static_cast<int>(at_least));
  return best;
}

}  // namespace weft
