#include "shard/pipeline/verify_pipeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/pipeline/pipeline_events.h"

namespace weft {
namespace {

using enum PipelineActionKind;

absl::Status CheckRoutes(const PipelineSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  if (shape.ranks < 1 || shape.microbatches < 1 || shape.chunks < 1 ||
      schedule.actions.size() != static_cast<size_t>(shape.ranks) ||
      schedule.route_of.size() != static_cast<size_t>(shape.microbatches)) {
    return absl::InvalidArgumentError(
        "the lists of actions are not one for each rank, or not every micro-batch has a route");
  }
  for (const int route : schedule.route_of) {
    if (route < 0 || static_cast<size_t>(route) >= schedule.routes.size())
      return absl::InvalidArgumentError(absl::StrCat("there is no route ", route));
  }
  for (const PipelineRoute& route : schedule.routes) {
    std::set<std::pair<int, int>> met;
    for (const PipelineStage& stage : route) {
      const bool there = stage.rank >= 0 && stage.rank < shape.ranks && stage.chunk >= 0 &&
                         stage.chunk < shape.chunks;
      if (there && met.emplace(stage.rank, stage.chunk).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("chunk ", stage.chunk, " of rank ", stage.rank,
                                                     " is not there, or stands twice in a route"));
    }
    if (route.empty()) return absl::InvalidArgumentError("a route has no stage");
  }
  return absl::OkStatus();
}

// One rank's list, action by action.
class RankCheck {
 public:
  RankCheck(const PipelineSchedule& schedule, int rank)
      : schedule_(schedule),
        rank_(rank),
        last_added_(static_cast<size_t>(schedule.shape.chunks), -1) {}

  absl::Status Check() {
    std::vector<PipelineAction> computing;
    for (const PipelineAction& action : Actions()) {
      if (action.microbatch < 0 || action.microbatch >= schedule_.shape.microbatches ||
          action.chunk < 0 || action.chunk >= schedule_.shape.chunks ||
          schedule_.StopOf(rank_, action) < 0) {
        return Wrong(action, "P1: its micro-batch or chunk is not there, or not on that route");
      }
      if (IsMessage(action.kind)) continue;
      computing.push_back(action);
      if (absl::Status status = Compute(action); !status.ok()) return status;
    }
    if (absl::Status status = CheckComplete(); !status.ok()) return status;
    // Messages may stand in any order between the actions that make and need them.
    return CheckMessages(WithMessages(schedule_, rank_, computing));
  }

  int peak() const { return peak_; }

 private:
  enum Done : unsigned { kForwardDone = 1, kInputDone = 2, kWeightDone = 4, kAll = 7 };

  const std::vector<PipelineAction>& Actions() const {
    return schedule_.actions[static_cast<size_t>(rank_)];
  }

  absl::Status Wrong(const PipelineAction& action, const char* what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank_, ", ", Describe(action), ": ", what));
  }

  // What an action adds, and what must be there before it.
  absl::Status Compute(const PipelineAction& action) {
    unsigned adds = kForwardDone, needs = 0;
    if (action.kind == kBackward) adds = kInputDone | kWeightDone, needs = kForwardDone;
    if (action.kind == kBackwardInput) adds = kInputDone, needs = kForwardDone;
    if (action.kind == kBackwardWeight) adds = kWeightDone, needs = kForwardDone | kInputDone;
    unsigned& done = done_[{action.microbatch, action.chunk}];
    if ((done & adds) != 0) return Wrong(action, "P1: it is done twice");
    if ((done & needs) != needs) return Wrong(action, "P1: it comes before what it needs");
    done |= adds;
    if (action.kind == kForward) peak_ = std::max(peak_, ++kept_);
    if ((adds & kWeightDone) == 0) return absl::OkStatus();
    kept_--;
    int& last = last_added_[static_cast<size_t>(action.chunk)];
    if (action.microbatch < last)
      return Wrong(action, "P2: gradients of a later micro-batch were added before");
    last = action.microbatch;
    return absl::OkStatus();
  }

  absl::Status CheckComplete() const {
    for (int microbatch = 0; microbatch < schedule_.shape.microbatches; microbatch++) {
      for (const PipelineStage& stage : schedule_.RouteOf(microbatch)) {
        if (stage.rank != rank_) continue;
        const auto found = done_.find({microbatch, stage.chunk});
        if (found != done_.end() && found->second == kAll) continue;
        return Wrong({kForward, microbatch, stage.chunk}, "P1: it, or its backward, is missing");
      }
    }
    return absl::OkStatus();
  }

  // P3, by what must stand where: `wanted` has the same actions with their messages around them.
  absl::Status CheckMessages(const std::vector<PipelineAction>& wanted) const {
    const auto key = [](const PipelineAction& action) {
      return std::tuple(action.kind, action.microbatch, action.chunk, action.peer);
    };
    std::map<decltype(key(wanted[0])), size_t> places;
    for (size_t i = 0; i < Actions().size(); i++) {
      if (!places.emplace(key(Actions()[i]), i).second)
        return Wrong(Actions()[i], "P3: it stands there twice");
    }
    if (wanted.size() != Actions().size())
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank_, " has ", Actions().size(), " actions and messages, not the ",
                       wanted.size(), " that its routes ask for (P3)"));
    size_t computing = 0;
    for (size_t i = 0; i < wanted.size(); i++) {
      const auto found = places.find(key(wanted[i]));
      if (found == places.end()) return Wrong(wanted[i], "P3: it is missing");
      if (IsReceive(wanted[i].kind)) {
        // That of the action behind it.
        if (found->second > places.at(key(wanted[i + 1])))
          return Wrong(wanted[i], "P3: it comes after the action that needs it");
      } else if (IsSend(wanted[i].kind)) {
        if (found->second < computing)
          return Wrong(wanted[i], "P3: it comes before what it sends is made");
      } else {
        computing = found->second;
      }
    }
    return absl::OkStatus();
  }

  const PipelineSchedule& schedule_;
  const int rank_;
  std::map<std::pair<int, int>, unsigned> done_;  // by micro-batch and chunk
  std::vector<int> last_added_;                   // by chunk
  int kept_ = 0, peak_ = 0;
};

}  // namespace

absl::StatusOr<PipelineProof> VerifyPipeline(const PipelineSchedule& schedule) {
  if (absl::Status status = CheckRoutes(schedule); !status.ok()) return status;
  PipelineProof proof;
  for (int rank = 0; rank < schedule.shape.ranks; rank++) {
    RankCheck check(schedule, rank);
    if (absl::Status status = check.Check(); !status.ok()) return status;
    proof.peak_activations.push_back(check.peak());
    for (const PipelineAction& action : schedule.actions[static_cast<size_t>(rank)])
      proof.messages += IsSend(action.kind) ? 1 : 0;
  }
  absl::StatusOr<PipelineEvents> events = PipelineEvents::Of(schedule);
  if (!events.ok()) return events.status();
  if (absl::StatusOr<std::vector<int>> order = events->InOrder(); !order.ok())
    return absl::InvalidArgumentError(absl::StrCat("P4: ", order.status().message()));
  return proof;
}

}  // namespace weft
