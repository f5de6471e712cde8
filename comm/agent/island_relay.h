// Why groups have ended: the records of all islands, brought to all islands, and of several the one that counts.
//
//   relay.Raise(record, now_ns);                      // found on this island
//   relay.Merge(from, verdict, now_ns);               // a neighbour's knowledge
//   relay.Exclude(ended and unreachable islands);     // these are not waited for
//   for (const GroupVerdict& verdict : relay.Step(now_ns)) ...   // news, to be told to all neighbours
//
// Islands find the same failure at the same time, each a different consequence of it. Facts beat
// consequences: a rank that was killed beats a mismatch beats a rank that ended by itself beats an
// unreachable island beats a deadline beats an abort; then, of deadlines, the one that was followed
// farther to whom others wait for; then the lower culprit. So knowledge of a group is
// the best record, and merging is taking the better one: repeated, reordered and old frames do no harm.
//
// Settling. An island that hears of a group's end gathers what it finds itself for `gather_ns`; then it closes: it adds
// nothing of its own any more, and says so together with the best record it knows. When all islands that are not excluded
// have closed, the record is the best of all that any of them had to say: settled, and the same everywhere. Who is dead or
// unreachable is excluded, and exclusion spreads: those that count must have the same set. An island takes nothing from one
// that it excludes. Who has not closed for `patience_ns`, though nobody says that it is gone, is excluded too: all ways to it
// may lead over islands that are. docs/design/011-islands.md has the proof of
//   (R1) of two islands that settle a group with different records, one has excluded the other.
//
// Thread-safety: owned by one thread. Memory: at most kGroupsMax groups; the oldest settled one makes room.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "comm/agent/island_number_set.h"
#include "comm/agent/island_protocol.h"

namespace weft {

// True if `a` says more of the cause than `b`.
bool BeatsRecord(const FailureRecord& a, const FailureRecord& b);

class IslandRelay {
 public:
  static constexpr size_t kGroupsMax = 32;
  static constexpr size_t kForgottenMax = 256;

  // `islands`: those of the membership. `self` is among them, or has no say.
  IslandRelay(IslandNumberSet islands, int self, int64_t gather_ns, int64_t patience_ns);

  // What this island had said before another process spoke for it.
  void Restore(const GroupVerdict& verdict, int64_t now_ns);

  // BAD_STATE if the group has settled, or this island has closed it: the record comes too late to count. OUT_OF_MEMORY if
  // too many groups are not settled.
  absl::Status Raise(const FailureRecord& record, int64_t now_ns);

  // What it knows of the group; nullptr: nothing.
  const GroupVerdict* Of(uint64_t group_id) const;

  // What `from`, which has sent this itself, knows.
  void Merge(int from, const GroupVerdict& verdict, int64_t now_ns);

  // These are not waited for any more, in any group. A group keeps those that it has excluded.
  void Exclude(const IslandNumberSet& islands);

  // Closes what is due. Those of which something is new; `settled` ones say so once, before TakeSettled() has them.
  std::vector<GroupVerdict> Step(int64_t now_ns);
  int64_t NextWakeNs() const;

  // Those that have become settled since the last call.
  std::vector<GroupVerdict> TakeSettled();

  // For a new connection.
  std::vector<GroupVerdict> All() const;

 private:
  struct Group {
    GroupVerdict verdict;
    int64_t close_ns = 0;
    int64_t patience_ns = 0;  // until when those that have not closed are waited for
    int64_t tell_ns =
        INT64_MAX;  // when news may be told; INT64_MIN: in the next step, INT64_MAX: there is none
    uint64_t order = 0;
  };

  Group* Find(uint64_t group_id, int64_t now_ns, const FailureRecord& record);
  bool MakeRoom();
  void News(Group* group, int64_t now_ns, bool urgent);
  void AddExcluded(Group* group, const IslandNumberSet& islands, int64_t now_ns);
  void CloseIfDue(Group* group, int64_t now_ns);
  void CheckSettled(Group* group);

  const IslandNumberSet islands_;
  const int self_;
  const int64_t gather_ns_;
  const int64_t patience_ns_;
  IslandNumberSet gone_;  // to be excluded
  std::map<uint64_t, Group> groups_;
  std::deque<uint64_t> forgotten_;
  uint64_t next_order_ = 0;
  std::vector<GroupVerdict> settled_;
};

}  // namespace weft
