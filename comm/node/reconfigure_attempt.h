// One attempt of a rank to agree with the others on its group's board: vote, look at the others, do what the rules say, until
// somebody has decided.
//
//   ReconfigureAttempt attempt(old, board.Outcome());
//   attempt.Vote(wish);
//   const ReconfigureOutcome outcome = attempt.Agree(deadline_ns, rule, lead);
//
// A call ends by what stands on the board, whoever has written it: who gives up at its deadline, or because its program interrupts
// it, decides that for all.
//
// Thread-safety: one thread of the rank, inside the group's gate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/node/failure.h"
#include "comm/node/node_state.h"
#include "comm/node/reconfigure_board.h"
#include "comm/node/reconfigure_rules.h"

namespace weft {

class ReconfigureAttempt {
 public:
  // From what a rank sees to what it does next.
  using Rule = std::function<ReconfigureMove(const std::vector<ReconfigureVoter>& ranks)>;
  // Does what a leader has to; false if it must wait for something that is not on the board. From the deadline on it decides, and says true.
  using Lead = std::function<bool(const std::vector<int>& members)>;

  // The attempt after `before`. All outlive the object.
  ReconfigureAttempt(const NodeState& state, FailureReporter& failures,
                     const ReconfigureOutcome& before);

  uint32_t number() const { return before_.attempt + 1; }

  void Vote(uint64_t wish) const { board_.Vote(state_.rank, number(), wish); }

  struct Patience {
    int64_t deadline_ns = 0;  // MonotonicNs; whom it waits for then is decided to be why
    int64_t leader_ns =
        0;  // how much longer it waits for a leader alone, which has its own deadline
    // When a group that works is ended if not all have voted: who waits in an operation for a rank that is here would wait for ever.
    int64_t finish_ns = INT64_MAX;
    const char* awaited = "to call weft_group_reconfigure";  // what those do that it waits for
  };

  ReconfigureOutcome Agree(const Patience& patience, const Rule& rule, const Lead& lead);

  // False if somebody was quicker. It may have left since, so that it seems to be gone to who looks at this moment.
  bool Decide(ReconfigureOutcome::Kind kind, int rank, int other) const;

  bool Decided() const { return board_.Outcome().attempt >= number(); }

  // Of a process that has ended, or has left in good order.
  bool Gone(int rank);

  const ReconfigureBoard& board() const { return board_; }

 private:
  std::vector<ReconfigureVoter> Look();
  bool Move(const ReconfigureMove& move, const Lead& lead) const;
  void AwaitChange(int votes, int64_t left_ns) const;
  void SayAwaited(const ReconfigureMove& move, const char* awaited, int64_t waited_s);

  const NodeState& state_;
  FailureReporter& failures_;
  const ReconfigureBoard board_;
  const ReconfigureOutcome before_;
};

}  // namespace weft
