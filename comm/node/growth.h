// Making a group anew with processes that are not in it yet: the side of the ranks that are.
//
//   Growth growth(state, failures, options, world_name);
//   growth.Lead(attempt, members, deadline_ns, &why);                 // one rank, until enough newcomers are there
//   auto made = growth.Make(next_attempt, leader, deadline_ns);       // all ranks, after kAdmit
//   ... next_attempt.Vote(made), Agree ...; growth.CallOff(made)      // if not all that live have it
//
// Newcomers share no memory with the group, so they are met in a store (rendezvous/newcomer_queue.h), and the group is made there as a
// first one is, in the epoch that follows. It counts only when all ranks that live have it, which the old group's board decides
// (docs/design/010-reconfigure.md, Newcomers).
//
// Thread-safety: one thread of the rank, inside the old group's gate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/node/failure.h"
#include "comm/node/node_state.h"
#include "comm/node/reconfigure_attempt.h"
#include "comm/rendezvous/newcomer_queue.h"

namespace weft {

class Growth {
 public:
  // options.newcomers is a store; `options.name`, timeouts: of the new group. All outlive the object.
  Growth(const NodeState& state, FailureReporter& failures, const GroupOptions& options,
         std::string world_name)
      : state_(state), failures_(failures), options_(options), world_name_(std::move(world_name)) {}

  // Looks who waits, and admits them if they are enough for the open places, by deciding kAdmit. False if more are awaited. If the store
  // fails, or at the deadline, decides that instead; *why is then what this rank has met with.
  bool Lead(const ReconfigureAttempt& attempt, const std::vector<int>& members, int64_t deadline_ns,
            absl::Status* why);

  // Meets the others and makes the group that `leader` has offered; nullptr on a rank that is not listed. `attempt`: that comes after kAdmit;
  // who votes in it that it has failed ends this on all ranks.
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Make(ReconfigureAttempt& attempt, int leader,
                                                     int64_t deadline_ns);

  // The group does not count: drops what this rank has made, which may be nullptr, and tells the newcomers if there is a meeting.
  void CallOff(ProcessGroup* made) const;

 private:
  absl::Status Admit(const std::vector<int>& members, const std::vector<Newcomer>& newcomers);
  absl::Status InRanksOfThisGroup(const absl::Status& failure,
                                  const std::vector<int>& members) const;
  absl::Status GivenUp(ReconfigureAttempt& attempt, const std::vector<int>& members) const;

  // The first member that has ended or met with something of its own, and the first that gave up because of somebody else; OK: none.
  struct MemberEnds {
    absl::Status cause;
    absl::Status consequence;
  };

  MemberEnds LookAtMembers(ReconfigureAttempt& attempt, const std::vector<int>& members) const;

  const NodeState& state_;
  FailureReporter& failures_;
  const GroupOptions& options_;
  const std::string world_name_;
  int64_t look_ns_ = 0;  // when the store is asked again
  std::string meeting_;
  absl::Status admitted_;               // of the leader
  std::vector<GroupMember> newcomers_;  // whom it has admitted, by their ranks to be
};

}  // namespace weft
