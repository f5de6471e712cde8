// How a group over several islands ends: what its ranks on this island find, as a record for all islands; and what all islands have
// settled on, as the error that its ranks get.
//
//   SpanEnd end(group_id, name, inner, members);
//   if (std::optional<FailureRecord> record = end.Found()) ...   // the speaker: to be told to the other islands
//   end.Raise(verdict.record);                                    // it has ended there: whoever waits here is released
//   return end.StatusOf(verdict.record);                          // the same sentence on all islands
//
// The ranks of the island are a node group of their own, the inner group, and find out as such: it ends when one of them
// does. Its numbers are of the island; records have world ranks, and errors the ranks of the whole group.
//
// Thread-safety: any thread; immutable but for the inner group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/proc.h"
#include "base/status.h"
#include "comm/agent/island_protocol.h"
#include "comm/agent/wait_cycle.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/link_note.h"
#include "comm/hierarchy/span_records.h"
#include "comm/rendezvous/membership.h"

namespace weft {

// What is known here of ranks on other islands.
class AfarRanks {
 public:
  virtual ~AfarRanks() = default;

  // No process of its island answers, but their machine does: they are stopped.
  virtual bool IsStalled(int world_rank) const = 0;

  // What ranks of this island show of their links to others.
  virtual std::vector<LinkNote> Links() const = 0;
};

class SpanEnd {
 public:
  // `members` by rank of the group, with their world ranks. `records`: what those of this island show each other; `afar`, which outlives it, what
  // is known of others; nullptr: nothing.
  SpanEnd(uint64_t group_id, std::string name, std::shared_ptr<ProcessGroup> inner,
          std::vector<GroupMember> members, std::shared_ptr<const SpanRecords> records = nullptr,
          const AfarRanks* afar = nullptr);

  uint64_t group_id() const { return group_id_; }

  const std::string& name() const { return name_; }

  // The rank that a rank of the world is in it; -1: none.
  int RankOf(int world_rank) const;

  // `rank` is waited for, but may wait itself, and so on: the last one that this island knows of, `rank` if that leads in a circle. A
  // stopped rank waits for nobody.
  int HoldingUp(int rank) const;

  // The last wait of that way from `rank`, of this island, which waits for `awaited`.
  struct LastWait {
    int waiting;
    int holding_up;
  };

  LastWait LastWaitFrom(int rank, int awaited) const;

  // "LINK_STALLED: ..." if nothing passes on the link of the two, "LINK_SLOW: ..." if the other one has come and data moves; else "". The rank
  // at its other end is not to blame.
  std::string LinkText(const LastWait& last) const;

  // As HoldingUp() of a deadline that names a rank of this island: the record that says who it is,
  // or that it is the one named, or that the way leads in a circle, which is said once; or that a
  // link is the cause. Of a mismatch that names a rank of this island which has refused the call: why it has. Nothing if this island has no
  // more to say.
  std::optional<FailureRecord> Traced(const FailureRecord& record) const;

  // Its process lives and does nothing by itself: of a rank of this island by /proc, of another one if no process there answers.
  bool Stalls(int rank) const;

  ProcessName ProcessOf(int rank) const;

  // "rank 2 (host a, pid 4711)", with ", process stopped" as well if it stalls.
  std::string Describe(int rank) const;
  std::string AddressOf(int rank) const;

  // What has ended the inner group, traced; nothing if it has not ended.
  std::optional<FailureRecord> Found() const;
  // That no island can be connected with the ranks `world_ranks`, of which the first one in the group is named; nothing if none is
  // in it.
  std::optional<FailureRecord> Unreachable(const std::vector<int>& world_ranks) const;
  // That this rank has ended, on an island none of whose ranks is left to say so; nothing if it is not in the group.
  std::optional<FailureRecord> Dead(int world_rank, const ExitInfo& exit) const;

  // What an error says of a rank that has caused it; of the group only if that is -1.
  ErrorFields FieldsOf(int rank) const;

  absl::Status StatusOf(const FailureRecord& record) const;

  void Raise(const FailureRecord& record) const { inner_->Fail(StatusOf(record)); }

 private:
  // Ranks, each of which waits for the next one.
  struct Way {
    std::vector<int> ranks;
    // The last waits for this one, where the way was before; -1: for nobody that is known.
    int again = -1;
    // A rank of it has come to what it is waited for with, so that data moves: nobody waits for whom that rank waits for itself.
    bool moves = false;
  };

  // From `rank`, which `finder` waits for; it was at `before` first.
  Way Follow(int rank, const std::vector<int>& before, int finder) const;
  std::string WayText(const Way& way) const;
  std::optional<FailureRecord> Refused(const FailureRecord& record) const;
  FailureRecord RecordOf(weft_result_t result, int rank) const;
  ProcessState StateOf(int rank) const;
  std::string StallText(int rank) const;
  std::string SentenceOf(const LinkNote& note) const;
  std::optional<FailureRecord> LinkCause(const FailureRecord& record, const LastWait& last) const;

  const uint64_t group_id_;
  const std::string name_;
  const std::shared_ptr<ProcessGroup> inner_;
  const std::vector<GroupMember> members_;
  const std::shared_ptr<const SpanRecords> records_;
  const AfarRanks* const afar_;
};

}  // namespace weft
