#include "trainer/chrome_trace.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/core.h>

#include "weft/collective.h"
#include "weft/vector.h"

#include "trainer/parallel.h"
#include "trainer/plan.h"

namespace weft::trainer {
namespace {

enum Lane : int { kSteps, kComputing, kWaiting, kReductionLane };

constexpr const char* kLaneNames[] = {"steps", "computing", "waiting for other ranks",
                                      "reductions under way"};  // by Lane

// What goes ahead of a rank's events.
struct TraceHead {
  uint64_t machine = 0;
  int64_t now_ns = 0;  // at one moment on all ranks
  uint64_t count = 0;
};

Lane LaneOf(TraceKind kind) {
  switch (kind) {
    case TraceKind::kStep:
      return kSteps;
    case TraceKind::kGatherWait:
    case TraceKind::kReduceWait:
      return kWaiting;
    case TraceKind::kReductions:
      return kReductionLane;
    default:
      return kComputing;
  }
}

std::string NameOfEvent(const TraceEvent& event, const std::vector<UnitSpec>& units) {
  const std::string unit = event.what < units.size() ? units[event.what].name : "";
  switch (event.kind) {
    case TraceKind::kStep:
      return fmt::format("step {}", event.step);
    case TraceKind::kPhase:
      return event.what < kPhases ? kPhaseNames[event.what] : "";
    case TraceKind::kUnitForward:
      return unit + " forward";
    case TraceKind::kUnitBackward:
      return unit + " backward";
    case TraceKind::kGatherWait:
      return "gather " + unit;
    case TraceKind::kReduceWait:
      return "reduce";
    case TraceKind::kReductions:
      return "gradients";
  }
  return "";
}

// Names of units and lanes have no characters that JSON would want escaped.
std::string MetadataLine(const char* what, size_t rank, int lane, const std::string& name) {
  return fmt::format(
      "{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}", what,
      rank, lane, name);
}

}  // namespace

std::vector<RankTrace> GatherTraces(weft_group_t group, const std::vector<TraceEvent>& own) {
  int rank = 0, size = 1;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Check(weft_group_size(group, &size), "asking for the group's size");
  Check(weft_barrier(group, nullptr, nullptr), "setting the clocks of a trace");
  const TraceHead head = {
      ThisMachine(),
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(),
      own.size()};
  std::vector<TraceHead> heads(static_cast<size_t>(size));
  Check(weft_all_gather(&head, heads.data(), sizeof head, WEFT_UINT8, group, nullptr, nullptr),
        "collecting a trace");
  std::vector<RankTrace> ranks(rank == 0 ? heads.size() : 0);
  std::vector<size_t> counts, displacements;
  size_t total = 0;
  for (size_t r = 0; r < heads.size(); r++) {
    counts.push_back(heads[r].count * sizeof(TraceEvent));
    displacements.push_back(total * sizeof(TraceEvent));
    total += heads[r].count;
  }
  std::vector<TraceEvent> all(rank == 0 ? total : 0);
  Check(weft_gather_v(own.data(), own.size() * sizeof(TraceEvent), all.data(), counts.data(),
                      displacements.data(), WEFT_UINT8, 0, group, nullptr, nullptr),
        "collecting a trace");
  size_t begin = 0, machines = 0;
  for (size_t r = 0; r < ranks.size(); r++) {
    size_t first = 0;
    while (heads[first].machine != heads[r].machine)
      first++;
    ranks[r].machine = first == r ? machines++ : ranks[first].machine;
    // One clock on a machine.
    ranks[r].shift_ns = ranks[r].machine == 0 ? 0 : heads[0].now_ns - heads[first].now_ns;
    ranks[r].events.assign(all.begin() + long(begin), all.begin() + long(begin + heads[r].count));
    begin += heads[r].count;
  }
  return ranks;
}

std::string ChromeTraceOf(const std::vector<RankTrace>& ranks, const std::vector<UnitSpec>& units) {
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const RankTrace& rank : ranks) {
    for (const TraceEvent& event : rank.events)
      start = std::min(start, event.begin_ns + rank.shift_ns);
  }
  std::vector<std::string> lines;
  for (size_t r = 0; r < ranks.size(); r++) {
    lines.push_back(MetadataLine("process_name", r, 0,
                                 fmt::format("rank {}, machine {}", r, ranks[r].machine)));
    for (const int lane : {kSteps, kComputing, kWaiting, kReductionLane})
      lines.push_back(MetadataLine("thread_name", r, lane, kLaneNames[lane]));
    for (const TraceEvent& event : ranks[r].events) {
      lines.push_back(fmt::format(
          "{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
          "\"args\":{{\"step\":{}}}}}",
          NameOfEvent(event, units), r, int(LaneOf(event.kind)),
          double(event.begin_ns + ranks[r].shift_ns - start) * 1e-3,
          double(event.end_ns - event.begin_ns) * 1e-3, event.step));
    }
  }
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t i = 0; i < lines.size(); i++)
    out += lines[i] + (i + 1 < lines.size() ? ",\n" : "\n");
  return out + "]}\n";
}

}  // namespace weft::trainer
