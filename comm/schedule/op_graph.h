// All ops of a schedule with what must come before what: a step of the verifier.
//
//   WEFT_ASSIGN_OR_RETURN(OpGraph graph, OpGraph::Create(schedule));    // refuses what is malformed, or may stand still
//   for (const OpId id : graph.order()) ...                             // a legal order
//   if (!graph.IsBefore(a, b) && !graph.IsBefore(b, a)) ...             // they may run at the same time
//
// Two relations that must not be confused. Whether a schedule can stand still is asked with all that a strict executor may wait for:
// rendezvous, and the window of S2. Whether two ops are ordered is asked with what every executor keeps to: `after`, and that a message has
// arrived after it was sent. (S1 to S6: schedule.h.)
// Thread-safety: one thread; IsBefore keeps what it has found out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/schedule/schedule.h"

namespace weft {

using OpId = uint32_t;

class OpGraph {
 public:
  static constexpr uint32_t kOpsMax = 1 << 22;  // of all participants
  static constexpr OpId kNoOp = UINT32_MAX;

  // INVALID_ARGUMENT with participant and op: an `after` that names no earlier op, a message without its other half or with two, halves of
  // different sizes, ops that wait for each other.
  static absl::StatusOr<OpGraph> Create(const CollectiveSchedule& schedule);

  const std::vector<ScheduleOp>& ops() const { return ops_; }

  int ParticipantOf(OpId id) const;

  std::span<const OpId> order() const { return order_; }

  // Of a message: its other half. kNoOp for other ops.
  OpId OtherHalf(OpId id) const { return other_half_[id]; }

  OpId FirstOf(int participant) const { return begin_[static_cast<size_t>(participant)]; }

  OpId EndOf(int participant) const { return begin_[static_cast<size_t>(participant) + 1]; }

  // True if `a` has always ended before `b` starts, or, if `b` is a receive, writes; both of one participant.
  bool IsBefore(OpId a, OpId b);

  // Participants one of whose ops has always ended after `participant` has come to the operation.
  std::vector<bool> WhoAwaits(int participant) const;

  // Messages on the longest chain of ops that depend on each other.
  int Levels() const;

  // "participant 3 op 17 (send to 4)".
  std::string Describe(OpId id) const;

 private:
  OpGraph() = default;

  absl::Status Load(const CollectiveSchedule& schedule);
  absl::Status CheckAfter() const;
  absl::Status Match(bool empty_are_sent);
  absl::Status Sort(uint32_t window);
  template <typename F>
  void ForEachAfter(OpId id, F&& use) const;
  void BuildSuccessors();
  void BuildBefore(int participant);
  bool IsReached(OpId a, OpId b) const;
  // Fills `ended` and `started`, by OpId, with what follows from the start of the ops in `starts` or the end of those in `ends`.
  void Reach(std::span<const OpId> starts, std::span<const OpId> ends, std::vector<bool>* started,
             std::vector<bool>* ended) const;

  std::vector<ScheduleOp> ops_;
  std::vector<OpId> begin_;  // by participant; one more for the end
  std::vector<OpId> other_half_;
  std::vector<bool> is_sent_;  // of messages: not empty, or of a barrier
  std::vector<OpId> order_;
  std::vector<uint32_t> successor_begin_;
  std::vector<OpId> successors_;  // by `after`
  // Of participant before_of_, unless it has too many ops for such a table: bit b of row a is set if `a` comes after `b` by `after` alone.
  int before_of_ = -1;
  std::vector<std::vector<uint64_t>> before_;
};

}  // namespace weft
