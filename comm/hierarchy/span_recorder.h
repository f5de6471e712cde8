// What one rank does with a group over several islands, as it is recorded and counted: its calls and messages, how they end, and what
// becomes of the group.
//
//   SpanRecorder recorder({.name = "s", ...}, records, members);
//   recorder.Begin(*work);                     // a call; recorder.Begin(&message): a message
//   recorder.Look(works, messages);            // now and then: whom they wait for
//   recorder.End(*work, /*well=*/true);
//   recorder.Tell(cause);                      // an operation is about to return why the group has ended: the dump
//
// Thread-safety: under the group's lock; Read() and Waited() from any thread. Costs some 40 ns a call, and allocates nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/hierarchy/span_messages.h"
#include "comm/hierarchy/span_records.h"
#include "comm/hierarchy/span_work.h"
#include "comm/node/group_counters.h"
#include "comm/recorder/dump_once.h"
#include "comm/rendezvous/membership.h"

namespace weft {

class SpanRecorder {
 public:
  struct Group {
    std::string name;
    uint64_t id = 0;
    uint32_t epoch = 1;
    int rank = 0;
    uint64_t parent_id = 0;  // of the group that it was split from; 0: none
    int parent_rank = -1;    // this rank's there
  };

  // `members` are borrowed.
  SpanRecorder(Group group, std::shared_ptr<SpanRecords> records,
               const std::vector<GroupMember>& members);

  void Begin(const SpanWork& work);
  void End(const SpanWork& work, bool well);
  void Begin(SpanMessage* message);
  void End(const SpanMessage& message, bool well);

  // Shows for whom the oldest of them waits, as far as one does.
  void Look(const std::deque<std::shared_ptr<SpanWork>>& works, const SpanMessages& messages);
  // None is under way.
  void LookAtNone();

  // This rank has found that the group cannot go on.
  void Find(const absl::Status& found);
  void Tell(const absl::Status& cause);
  void Leave();

  // A blocking call has waited for peers this long after it stopped spinning.
  void Waited(int64_t ns) { counters_.Waited(ns); }

  // Without pending and private_bytes.
  GroupStats Read() const { return counters_.Read(); }

 private:
  void Show(const std::optional<SpanWait>& wait);
  void Dump(const absl::Status& cause) const;

  const Group group_;
  const std::shared_ptr<SpanRecords> records_;
  const std::vector<GroupMember>& members_;
  const RecorderRing calls_;
  GroupCounters counters_;
  DumpOnce dump_;
  std::optional<SpanWait> shown_;
  bool acknowledged_ = false;
};

}  // namespace weft
