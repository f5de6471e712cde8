#include "growth_model.h"

#include <functional>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"
#include "growth_steps.h"

namespace weft::test {
namespace {

constexpr std::string_view kNames[kGrowthRuleCount] = {
    "None",      "MakingVotes",  "MakingAllHave",  "SomebodyHas", "DropIfNotGrown",
    "MeetTwice", "GrownIsLast",  "CompareAndSwap", "GiveUpAloud", "LookWhileMeeting",
    "CallOff",   "HostCallsOff", "WatchHost"};

static_assert(std::has_unique_object_representations_v<GrowthState>);

uint64_t HashOfState(const GrowthState& state) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(&state), sizeof(GrowthState)});
}

class Explorer {
 public:
  explicit Explorer(const GrowthWorld& world) : world_(world), steps_(world) {}

  GrowthExploration Run() {
    Visit(steps_.Begin());
    GrowthExploration all = steps_.found();
    all.states = seen_.size();
    all.problem = problem_;
    return all;
  }

 private:
  void Fail(const std::string& problem) {
    problem_ = problem + "; after";
    for (const std::string& step : path_)
      problem_ += " " + step;
  }

  // Depth first.
  void Visit(const GrowthState& state) {
    if (!problem_.empty() || !seen_.insert(HashOfState(state)).second) return;
    bool moved = false;
    for (int process = 0; process <= world_.ranks; ++process) {
      const GrowthProcess& self = state.processes[static_cast<size_t>(process)];
      if (self.dead || self.stopped || self.at == GrowthProcess::At::kDone) continue;
      moved = TryMoves(state, process) || moved;
      TryMishaps(state, process);
    }
    if (moved || !problem_.empty()) return;
    if (const std::string problem = steps_.CheckEnd(state); !problem.empty()) Fail(problem);
  }

  // False if it waits.
  bool TryMoves(const GrowthState& state, int process) {
    const bool moves = steps_.Possible(state, process);
    if (moves) {
      const auto step = GrowthSteps::StepOf(state.processes[static_cast<size_t>(process)]);
      Try(state, process, step, [&](GrowthState& after) { return steps_.Move(after, process); });
    }
    const bool sees = steps_.SeesFailure(state, process);
    if (sees) {
      Try(state, process, "sees",
          [&](GrowthState& after) { return steps_.GiveUpMeeting(after, process); });
    }
    const bool gives_up = steps_.MayGiveUp(state, process);
    if (gives_up) {
      Try(state, process, "gives-up",
          [&](GrowthState& after) { return steps_.GiveUp(after, process); });
    }
    return moves || sees || gives_up;
  }

  void TryMishaps(const GrowthState& state, int process) {
    const auto of = [process](GrowthState& after) -> GrowthProcess& {
      return after.processes[static_cast<size_t>(process)];
    };
    if (steps_.MayFail(state, process)) {
      Try(state, process, "fails", [&](GrowthState& after) {
        after.failed = true;
        return steps_.GiveUpMeeting(after, process);
      });
    }
    if (state.deaths < world_.deaths) {
      Try(state, process, "dies", [&](GrowthState& after) {
        ++after.deaths;
        of(after).dead = true;
        return std::string();
      });
    }
    if (state.stops < world_.stops) {
      Try(state, process, "stops", [&](GrowthState& after) {
        ++after.stops;
        of(after).stopped = true;
        return std::string();
      });
    }
  }

  template <typename Step>
  void Try(const GrowthState& state, int process, std::string_view name, Step&& step) {
    if (!problem_.empty()) return;
    GrowthState after = state;
    path_.push_back(fmt::format("{}-{}", steps_.NameOf(process), name));
    const std::string problem = step(after);
    if (!problem.empty()) {
      Fail(problem);
    } else {
      Visit(after);
    }
    path_.pop_back();
  }

  const GrowthWorld& world_;
  GrowthSteps steps_;
  std::unordered_set<uint64_t> seen_;
  std::vector<std::string> path_;
  std::string problem_;
};

}  // namespace

std::string_view GrowthRuleName(GrowthRule rule) {
  return kNames[static_cast<size_t>(rule)];
}

GrowthExploration ExploreGrowth(const GrowthWorld& world) {
  return Explorer(world).Run();
}

}  // namespace weft::test
