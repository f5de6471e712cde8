#include "comm/schedule/op_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

absl::Status Malformed(std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, what);
}

// Ops of one participant up to which what comes before what is kept in a table of bits: 128 MiB.
constexpr size_t kTableOpsMax = 1 << 15;

bool IsMessage(const ScheduleOp& op) {
  return op.action == OpAction::kSend || op.action == OpAction::kRecv;
}

// What a strict executor waits for, as a graph. A message is one vertex, its sender's: under rendezvous both halves end together, when
// both have started. Behind the ops' own vertices stand those that say "this op and all before it have ended".
class WaitGraph {
 public:
  explicit WaitGraph(size_t vertices) : waits_(vertices), dependents_(vertices) {}

  void AddWait(size_t vertex, size_t for_vertex) {
    dependents_[for_vertex].push_back(static_cast<uint32_t>(vertex));
    ++waits_[vertex];
  }

  // Vertices so that nothing waits for a later one; fewer than there are if some wait for each other.
  std::vector<uint32_t> Sorted() {
    std::vector<uint32_t> ready;
    for (size_t vertex = 0; vertex < waits_.size(); ++vertex) {
      if (waits_[vertex] == 0) ready.push_back(static_cast<uint32_t>(vertex));
    }
    for (size_t next = 0; next < ready.size(); ++next) {
      for (const uint32_t dependent : dependents_[ready[next]]) {
        if (--waits_[dependent] == 0) ready.push_back(dependent);
      }
    }
    return ready;
  }

 private:
  std::vector<uint32_t> waits_;
  std::vector<std::vector<uint32_t>> dependents_;
};

}  // namespace

template <typename F>
void OpGraph::ForEachAfter(OpId id, F&& use) const {
  const OpId first = FirstOf(ParticipantOf(id));
  for (const OpRange& range : ops_[id].after) {
    for (uint64_t index = range.begin; index < range.end; index += range.step)
      use(static_cast<OpId>(first + index));
  }
}

absl::StatusOr<OpGraph> OpGraph::Create(const CollectiveSchedule& schedule) {
  OpGraph graph;
  WEFT_RETURN_IF_ERROR(graph.Load(schedule));
  WEFT_RETURN_IF_ERROR(graph.CheckAfter());
  WEFT_RETURN_IF_ERROR(graph.Match(schedule.sends_empty()));
  WEFT_RETURN_IF_ERROR(graph.Sort(schedule.window()));
  graph.BuildSuccessors();
  return graph;
}

absl::Status OpGraph::Load(const CollectiveSchedule& schedule) {
  for (int participant = 0; participant < schedule.goal().participants; ++participant) {
    begin_.push_back(static_cast<OpId>(ops_.size()));
    const std::unique_ptr<OpStream> stream = schedule.OpsOf(participant);
    for (ScheduleOp op; stream->Next(&op);) {
      if (ops_.size() == kOpsMax)
        return Malformed(StrCat("the schedule has more than ", kOpsMax, " ops"));
      ops_.push_back(op);
    }
  }
  begin_.push_back(static_cast<OpId>(ops_.size()));
  return absl::OkStatus();
}

int OpGraph::ParticipantOf(OpId id) const {
  return static_cast<int>(std::upper_bound(begin_.begin(), begin_.end(), id) - begin_.begin()) - 1;
}

std::string OpGraph::Describe(OpId id) const {
  const int participant = ParticipantOf(id);
  const ScheduleOp& op = ops_[id];
  const std::string peer = IsMessage(op) ? StrCat(op.action == OpAction::kSend ? " to " : " from ",
                                                  op.peer, ", tag ", op.tag)
                                         : "";
  return StrCat("participant ", participant, " op ", id - FirstOf(participant), " (",
                ActionName(op.action), peer, ")");
}

absl::Status OpGraph::CheckAfter() const {
  for (OpId id = 0; id < ops_.size(); ++id) {
    const uint64_t index = id - FirstOf(ParticipantOf(id));
    for (const OpRange& range : ops_[id].after) {
      if (range.step == 0 || range.begin >= range.end || range.end > index) {
        return Malformed(StrCat(Describe(id), " comes after ops ", range.begin, " to ", range.end,
                                " in steps of ", range.step, "; only earlier ones can be named"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status OpGraph::Match(bool empty_are_sent) {
  const int participants = static_cast<int>(begin_.size()) - 1;
  other_half_.assign(ops_.size(), kNoOp);
  is_sent_.assign(ops_.size(), false);
  // Sender, receiver and tag; the send and the receive.
  std::map<std::tuple<int, int, uint64_t>, std::array<OpId, 2>> messages;
  for (OpId id = 0; id < ops_.size(); ++id) {
    const ScheduleOp& op = ops_[id];
    if (!IsMessage(op)) continue;
    const int self = ParticipantOf(id);
    if (op.peer < 0 || op.peer >= participants || op.peer == self) {
      return Malformed(
          StrCat(Describe(id), " names a peer that is none of the other participants"));
    }
    const bool sends = op.action == OpAction::kSend;
    const std::tuple<int, int, uint64_t> name = {sends ? self : op.peer, sends ? op.peer : self,
                                                 op.tag};
    OpId& half =
        messages.try_emplace(name, std::array<OpId, 2>{kNoOp, kNoOp}).first->second[sends ? 0 : 1];
    if (half != kNoOp)
      return Malformed(StrCat(Describe(id), " is the same message as ", Describe(half)));
    half = id;
  }
  for (const auto& message : messages) {
    const OpId send = message.second[0];
    const OpId recv = message.second[1];
    if (recv == kNoOp) return Malformed(StrCat(Describe(send), " is not received"));
    if (send == kNoOp) return Malformed(StrCat(Describe(recv), " is not sent"));
    if (ops_[send].units != ops_[recv].units) {
      return Malformed(StrCat(Describe(send), " has ", ops_[send].units, " units, its receive ",
                              ops_[recv].units));
    }
    other_half_[send] = recv;
    other_half_[recv] = send;
    is_sent_[send] = is_sent_[recv] = ops_[send].units > 0 || empty_are_sent;
  }
  return absl::OkStatus();
}

absl::Status OpGraph::Sort(uint32_t window) {
  if (window == 0) return Malformed("the schedule has a window of no ops");
  const size_t count = ops_.size();
  const auto vertex = [&](OpId id) {
    return is_sent_[id] && ops_[id].action == OpAction::kRecv ? other_half_[id] : id;
  };
  WaitGraph graph(2 * count);
  for (OpId id = 0; id < count; ++id) {
    const OpId first = FirstOf(ParticipantOf(id));
    ForEachAfter(id, [&](OpId before) { graph.AddWait(vertex(id), vertex(before)); });
    graph.AddWait(count + id, vertex(id));
    if (id > first) graph.AddWait(count + id, count + id - 1);
    if (id - first >= window) graph.AddWait(vertex(id), count + id - window);
  }
  std::vector<bool> sorted(2 * count);
  for (const uint32_t at : graph.Sorted()) {
    sorted[at] = true;
    if (at < count && vertex(at) == at) order_.push_back(at);
  }
  for (OpId id = 0; id < count; ++id) {
    if (!sorted[vertex(id)]) {
      return Malformed(StrCat("ops wait for each other with ", window,
                              " of them under way: ", Describe(id), " is one that never starts"));
    }
  }
  // A receive is done where its send is.
  std::vector<OpId> order;
  order.reserve(count);
  for (const OpId id : order_) {
    order.push_back(id);
    if (is_sent_[id]) order.push_back(other_half_[id]);
  }
  order_ = std::move(order);
  return absl::OkStatus();
}

void OpGraph::BuildSuccessors() {
  successor_begin_.assign(ops_.size() + 1, 0);
  for (OpId id = 0; id < ops_.size(); ++id)
    ForEachAfter(id, [&](OpId before) { ++successor_begin_[before + 1]; });
  for (size_t i = 1; i < successor_begin_.size(); ++i)
    successor_begin_[i] += successor_begin_[i - 1];
  successors_.resize(successor_begin_.back());
  std::vector<uint32_t> next = successor_begin_;
  for (OpId id = 0; id < ops_.size(); ++id)
    ForEachAfter(id, [&](OpId before) { successors_[next[before]++] = id; });
}

void OpGraph::BuildBefore(int participant) {
  before_of_ = participant;
  const OpId first = FirstOf(participant);
  const size_t count = EndOf(participant) - first;
  const size_t words = (count + 63) / 64;
  before_.assign(count, std::vector<uint64_t>(words));
  for (size_t index = 0; index < count; ++index) {
    std::vector<uint64_t>& row = before_[index];
    ForEachAfter(static_cast<OpId>(first + index), [&](OpId before) {
      const size_t at = before - first;
      for (size_t word = 0; word < words; ++word)
        row[word] |= before_[at][word];
      row[at / 64] |= uint64_t{1} << (at % 64);
    });
  }
}

bool OpGraph::IsBefore(OpId a, OpId b) {
  const int participant = ParticipantOf(a);
  const OpId first = FirstOf(participant);
  if (EndOf(participant) - first <= kTableOpsMax) {
    if (before_of_ != participant) BuildBefore(participant);
    const size_t bit = a - first;
    if ((before_[b - first][bit / 64] >> (bit % 64) & 1) != 0) return true;
  }
  // What comes earlier by way of others may stand anywhere in the list.
  return IsReached(a, b);
}

void OpGraph::Reach(std::span<const OpId> starts, std::span<const OpId> ends,
                    std::vector<bool>* started, std::vector<bool>* ended) const {
  started->assign(ops_.size(), false);
  ended->assign(ops_.size(), false);
  std::vector<OpId> stack;  // whose end is reached and not yet followed
  const auto end = [&](OpId id) {
    if ((*ended)[id]) return;
    (*ended)[id] = true;
    stack.push_back(id);
  };
  // What comes after the start of a send also comes after the first unit that its receive writes (S4).
  const auto start = [&](OpId id) {
    (*started)[id] = true;
    if (is_sent_[id] && ops_[id].action == OpAction::kSend) (*started)[other_half_[id]] = true;
    end(id);
  };
  for (const OpId id : starts)
    start(id);
  for (const OpId id : ends)
    end(id);
  while (!stack.empty()) {
    const OpId at = stack.back();
    stack.pop_back();
    for (uint32_t i = successor_begin_[at]; i < successor_begin_[at + 1]; ++i) {
      start(successors_[i]);
    }
    // What was sent has been read when it has arrived.
    if (is_sent_[at] && ops_[at].action == OpAction::kSend) end(other_half_[at]);
  }
}

bool OpGraph::IsReached(OpId a, OpId b) const {
  std::vector<bool> started;
  std::vector<bool> ended;
  const OpId ends[] = {a};
  Reach({}, ends, &started, &ended);
  return started[b];
}

std::vector<bool> OpGraph::WhoAwaits(int participant) const {
  std::vector<OpId> starts;
  for (OpId id = FirstOf(participant); id < EndOf(participant); ++id)
    starts.push_back(id);
  std::vector<bool> started;
  std::vector<bool> ended;
  Reach(starts, {}, &started, &ended);
  std::vector<bool> awaits(begin_.size() - 1);
  for (OpId id = 0; id < ops_.size(); ++id) {
    if (ended[id]) awaits[static_cast<size_t>(ParticipantOf(id))] = true;
  }
  awaits[static_cast<size_t>(participant)] = true;
  return awaits;
}

int OpGraph::Levels() const {
  std::vector<int> levels(ops_.size());
  int most = 0;
  for (const OpId id : order_) {
    // A receive comes right behind its send, whose own waiting for it does not count.
    int level = 0;
    ForEachAfter(id, [&](OpId before) { level = std::max(level, levels[before]); });
    if (is_sent_[id] && ops_[id].action == OpAction::kRecv)
      level = std::max(level, levels[other_half_[id]] + 1);
    levels[id] = level;
    most = std::max(most, level);
  }
  return most;
}

}  // namespace weft
