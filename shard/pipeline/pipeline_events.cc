#include "shard/pipeline/pipeline_events.h"

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

using enum PipelineActionKind;

// A message is known by its ends, its direction, its micro-batch and the chunk that sends it.
using MessageKey = std::tuple<int, int, bool, int, int>;

// The chunk that sends a message which `rank` receives.
int SendingChunk(const PipelineSchedule& schedule, int rank, const PipelineAction& receive) {
  const int stop = schedule.StopOf(rank, receive);
  const PipelineRoute& route = schedule.RouteOf(receive.microbatch);
  const int from = receive.kind == kReceiveForward ? stop - 1 : stop + 1;
  if (stop < 0 || from < 0 || from >= static_cast<int>(route.size())) return -1;
  return route[static_cast<size_t>(from)].chunk;
}

MessageKey KeyOf(const PipelineSchedule& schedule, int rank, const PipelineAction& action) {
  const bool forward = action.kind == kSendForward || action.kind == kReceiveForward;
  if (IsSend(action.kind)) return {rank, action.peer, forward, action.microbatch, action.chunk};
  return {action.peer, rank, forward, action.microbatch, SendingChunk(schedule, rank, action)};
}

absl::Status Wrong(int rank, const PipelineAction& action, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, ", ", Describe(action), ": ", what));
}

}  // namespace

PipelineEvents::PipelineEvents(const PipelineSchedule& schedule) : schedule_(schedule) {
  int count = 0;
  for (const std::vector<PipelineAction>& actions : schedule.actions) {
    first_.push_back(count);
    count += static_cast<int>(actions.size());
  }
  before_.assign(2 * static_cast<size_t>(count), {kNone, kNone, kNone});
}

void PipelineEvents::Add(int event, int waits_for) {
  if (waits_for == kNone) return;
  for (int& slot : before_[static_cast<size_t>(event)]) {
    if (slot != kNone) continue;
    slot = waits_for;
    return;
  }
}

void PipelineEvents::AddProgram(int rank) {
  const std::vector<PipelineAction>& actions = schedule_.actions[static_cast<size_t>(rank)];
  std::map<std::pair<int, PipelineActionKind>, size_t> last_send;
  int computing_begins = kNone;  // what the last action that computes waited for
  for (size_t i = 0; i < actions.size(); i++) {
    const PipelineAction& action = actions[i];
    const int before = i == 0 ? kNone : EndOf(rank, i - 1);
    Add(EndOf(rank, i), before);
    if (IsSend(action.kind)) {
      const auto [last, first_time] = last_send.try_emplace({action.peer, action.kind}, i);
      if (!first_time) Add(EndOf(rank, i), OtherOf(rank, last->second));
      last->second = i;
      Add(OtherOf(rank, i), EndOf(rank, i));
    } else if (IsReceive(action.kind)) {
      Add(OtherOf(rank, i), computing_begins);
    } else {
      computing_begins = before;
    }
  }
}

absl::Status PipelineEvents::Match() {
  std::map<MessageKey, int> sent;  // the message's coming
  for (int rank = 0; rank < static_cast<int>(schedule_.actions.size()); rank++) {
    const std::vector<PipelineAction>& actions = schedule_.actions[static_cast<size_t>(rank)];
    for (size_t i = 0; i < actions.size(); i++) {
      if (!IsSend(actions[i].kind)) continue;
      const MessageKey key = KeyOf(schedule_, rank, actions[i]);
      if (!sent.emplace(key, OtherOf(rank, i)).second) return Wrong(rank, actions[i], "sent twice");
    }
  }
  for (int rank = 0; rank < static_cast<int>(schedule_.actions.size()); rank++) {
    const std::vector<PipelineAction>& actions = schedule_.actions[static_cast<size_t>(rank)];
    for (size_t i = 0; i < actions.size(); i++) {
      if (!IsReceive(actions[i].kind)) continue;
      const auto found = sent.find(KeyOf(schedule_, rank, actions[i]));
      if (found == sent.end())
        return Wrong(rank, actions[i], "nothing is sent, or it is taken twice");
      Add(found->second, OtherOf(rank, i));
      Add(EndOf(rank, i), found->second);
      sent.erase(found);
    }
  }
  if (sent.empty()) return absl::OkStatus();
  const auto& [from, to, forward, microbatch, chunk] = sent.begin()->first;
  return Wrong(from, {forward ? kSendForward : kSendBackward, microbatch, chunk, to},
               "nobody receives it");
}

absl::StatusOr<PipelineEvents> PipelineEvents::Of(const PipelineSchedule& schedule) {
  PipelineEvents events(schedule);
  for (int rank = 0; rank < static_cast<int>(schedule.actions.size()); rank++)
    events.AddProgram(rank);
  if (absl::Status status = events.Match(); !status.ok()) return status;
  return events;
}

absl::StatusOr<std::vector<int>> PipelineEvents::InOrder() const {
  const auto count = static_cast<size_t>(size());
  std::vector<int> waits(count, 0);
  std::vector<std::vector<int>> after(count);
  for (int event = 0; event < size(); event++) {
    for (const int other : Before(event)) {
      if (other == kNone) continue;
      waits[static_cast<size_t>(event)]++;
      after[static_cast<size_t>(other)].push_back(event);
    }
  }
  std::vector<int> order;
  order.reserve(count);
  for (int event = 0; event < size(); event++) {
    if (waits[static_cast<size_t>(event)] == 0) order.push_back(event);
  }
  for (size_t i = 0; i < order.size(); i++) {
    for (const int next : after[static_cast<size_t>(order[i])]) {
      if (--waits[static_cast<size_t>(next)] == 0) order.push_back(next);
    }
  }
  if (order.size() == count) return order;
  return absl::InvalidArgumentError(
      absl::StrCat("these wait for each other: ", DescribeCircle(waits)));
}

// `waits`: of each event, for how many it still waits. From one that waits to one it waits for,
// until one is met again.
std::string PipelineEvents::DescribeCircle(const std::vector<int>& waits) const {
  const auto waiting = [&](int event) {
    return event != kNone && waits[static_cast<size_t>(event)] > 0;
  };
  int at = 0;
  while (!waiting(at))
    at++;
  std::vector<int> path;
  std::set<int> met;
  while (met.insert(at).second) {
    path.push_back(at);
    for (const int other : Before(at)) {
      if (waiting(other)) at = other;
    }
  }
  std::vector<std::string> words;
  bool inside = false;
  for (const int event : path) {
    inside |= event == at;
    if (!inside || event % 2 != 0) continue;
    int rank = static_cast<int>(first_.size()) - 1;
    while (first_[static_cast<size_t>(rank)] > event / 2)
      rank--;
    const auto index = static_cast<size_t>(event / 2 - first_[static_cast<size_t>(rank)]);
    words.push_back(absl::StrCat("rank ", rank, " ",
                                 Describe(schedule_.actions[static_cast<size_t>(rank)][index])));
  }
  return absl::StrJoin(words, "; ");
}

}  // namespace weft
