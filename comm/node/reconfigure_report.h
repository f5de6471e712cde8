// Why an attempt to make a group anew has made none, in words. All ranks say the same, each from what it sees.
//
// Thread-safety: as ReconfigureAttempt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "comm/node/failure.h"
#include "comm/node/node_state.h"
#include "comm/node/reconfigure_attempt.h"
#include "comm/node/reconfigure_board.h"

namespace weft {

class ReconfigureReport {
 public:
  // All outlive the object. `of_making`: the attempt is about a group that has been made with newcomers.
  ReconfigureReport(const NodeState& state, const FailureReporter& failures,
                    ReconfigureAttempt& attempt, const std::vector<int>& wished, bool of_making)
      : state_(state),
        failures_(failures),
        attempt_(attempt),
        wished_(wished),
        of_making_(of_making) {}

  // `own`: what this rank has met with, if it is due to this rank.
  absl::Status WhyNot(const ReconfigureOutcome& outcome, const absl::Status& own) const;

  // "reconfiguring group dp: "
  static std::string Heading(const std::string& group);

 private:
  std::string Heading() const { return Heading(failures_.names().group()); }

  absl::Status Say(weft_result_t result, const ErrorFields& fields, std::string_view what) const;
  absl::Status ListedRankIsGone(int rank) const;
  absl::Status TooLate(int rank, int finder, bool voted) const;
  absl::Status Interrupted(std::string_view name, const ErrorFields& fields) const;
  absl::Status NotGrown(const ReconfigureOutcome& outcome, const absl::Status& own) const;

  const NodeState& state_;
  const FailureReporter& failures_;
  ReconfigureAttempt& attempt_;
  const std::vector<int>& wished_;
  const bool of_making_;
};

}  // namespace weft
