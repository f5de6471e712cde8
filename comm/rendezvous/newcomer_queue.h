// Where processes that want to join a group which runs meet the ranks that take them in: keys of a store.
//
//   NewcomerQueue queue(store, "world");
//   WEFT_ASSIGN_OR_RETURN(const int64_t ticket, queue.Enter(self, deadline_ns));       // a newcomer
//   WEFT_ASSIGN_OR_RETURN(std::optional<Admission> mine, queue.Await(ticket, slice_ns));
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<Newcomer> who, queue.Waiting(2, deadline_ns));   // a rank of the group
//   queue.Admit(who[0], admission, deadline_ns);
//
// Newcomers draw numbers. Who has been admitted, has given up or has ended is over, and is not admitted again. An admission
// names a meeting, a prefix of keys under which the group is then made as any other (membership.h); a meeting that came to nothing is
// called off, so that a newcomer need not wait for those that are not coming.
//
// A ticket stays in the store when it is over, as two words.
//
// Thread-safety: the store's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"

namespace weft {

struct Newcomer {
  int64_t ticket = 0;  // from 1
  GroupMember member;  // its world_rank: that it would like to have, or -1
};

// What a newcomer is told by the rank that takes it in.
struct Admission {
  std::string meeting;  // prefix of the keys by which the group is made
  std::string group_name;
  std::string world_name;  // of the group that this one, and all between, came from
  uint32_t epoch = 1;
  int32_t rank = 0;
  int32_t size = 1;
  int32_t world_rank = 0;
  GroupMember by;  // who says so
};

class NewcomerQueue {
 public:
  // `store` outlives the object. `group_name`: of the group that is to be joined.
  NewcomerQueue(Store& store, std::string_view group_name);

  // A newcomer's.

  // Draws a number, which is waited with from now on. Errors: the store's.
  absl::StatusOr<int64_t> Enter(const GroupMember& self, int64_t deadline_ns);
  // Waits for an admission until then; nothing if there was none. Who is admitted does not wait any longer. CORRUPT: what is there
  // is none.
  absl::StatusOr<std::optional<Admission>> Await(int64_t ticket, int64_t deadline_ns);
  // Does not wait any longer. Returns an admission that came too late, if there is one: its ranks must be told.
  std::optional<Admission> GiveUp(int64_t ticket);

  // The group's.

  // At most so many of those that wait and live, in the order in which they came. Errors: the store's.
  absl::StatusOr<std::vector<Newcomer>> Waiting(size_t count_max, int64_t deadline_ns);
  absl::Status Admit(const Newcomer& newcomer, const Admission& admission, int64_t deadline_ns);

 private:
  std::string Key(std::string_view what, int64_t number) const;
  absl::StatusOr<int64_t> Count(std::string_view what);
  // Sets what the ticket says from now on; a failure is logged.
  void Mark(int64_t ticket, std::string_view what);
  absl::Status Set(std::string key, std::string value, int64_t deadline_ns);
  // What the ticket says: nothing if it is over, not written yet, or has been admitted.
  absl::StatusOr<std::optional<Newcomer>> Read(int64_t ticket, bool* over);

  Store& store_;
  const std::string prefix_;
};

// Says that the ranks that were to meet there do not come. A store that fails is logged.
void CallOff(Store& store, std::string_view meeting, int64_t deadline_ns);
// Whether somebody has said so; also if the store does not answer any more.
bool IsCalledOff(Store& store, std::string_view meeting);

}  // namespace weft
