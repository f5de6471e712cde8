// A call that this rank cannot make though the others do, because its arguments are wrong, say: the other ranks are told at
// once, instead of waiting for this one.
//
//   Refusals refusals(size);
//   WEFT_RETURN_IF_ERROR(refusals.Refuse(group, board, OpKind::kAllReduce, "the tensor is sparse"));
//
// A refusal takes the place of the refused call in the order of the group's collectives, as a call of its own that agrees
// with refusals alone, whatever was refused and why. So where all ranks refuse a call, nothing happens, and the group goes on;
// where some make it, all are told MISMATCH, with the rank that has refused, and why. Nobody waits in a refusal, and it has no
// deadline.
//
// The reason stands on the board that the ranks of a node share: a rank has four places there, which its refusals take in turn. The
// reason of a refusal whose place is still needed by an older one is not told; the rank is.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/group/notice_board.h"
#include "comm/group/process_group.h"
#include "comm/group/purpose.h"
#include "comm/group/work.h"

namespace weft {

class Refusals {
 public:
  explicit Refusals(int size);

  // `board` is that of the ranks of this node. ABORTED and so on if the group takes no calls; OUT_OF_MEMORY if others have not
  // come to kPendingMax refusals.
  absl::Status Refuse(ProcessGroup& group, NoticeBoard* board, std::optional<OpKind> refused,
                      std::string_view reason);

  // That others have not come to: no work of the caller's.
  uint64_t pending() const;

  // For a rank that leaves while there are some: the others' MISMATCH, of the oldest one.
  absl::Status Cause(const ProcessGroup& group) const;

  // The group is closed, so that all have ended. Works keep their group, so it must let go of them.
  void Close();

  static constexpr size_t kPendingMax = 1024;

 private:
  // The record of the next refusal, whose reason is shown; an error as Refuse's.
  absl::StatusOr<uint64_t> Take(const ProcessGroup& group, NoticeBoard* board,
                                std::optional<OpKind> refused, std::string_view reason);
  void Began(uint64_t number, absl::StatusOr<WorkRef> work);

  mutable Mutex mutex_;

  struct Pending {
    uint64_t number;  // the step of its purpose
    std::optional<OpKind> refused;
    std::string reason;
    WorkRef work;  // nullptr until it has begun
  };

  // The oldest first; those that have ended are dropped by the next refusal.
  std::deque<Pending> pending_ WEFT_GUARDED_BY(mutex_);
  uint64_t count_ WEFT_GUARDED_BY(mutex_) = 0;
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
  // What refusals exchange: nobody looks at it.
  const std::vector<char> in_;
  std::vector<char> out_;
};

// "; rank 3 says: the tensor is sparse", if that is still to be read of the refusal with this record; else "". `read`: as
// NoticeBoard::Read() of rank 3's places.
std::string RefusalText(int rank, uint64_t purpose_record,
                        const std::function<uint64_t(int place, WaitNotice* notice)>& read);

}  // namespace weft
