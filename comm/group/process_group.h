// A process group: ordered ranks that do collectives together.
//
//   WEFT_RETURN_IF_ERROR(group->Run({.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32,
//                                    .count = n, .in = x, .out = x}));
//
// Thread-safety: any thread; calls are serialised by the group's issue lock. Abort from any thread
// at any time. Close() before the last reference goes, as works keep their group alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "comm/group/call_key.h"
#include "comm/group/collective.h"
#include "comm/group/message.h"
#include "comm/group/notice_board.h"
#include "comm/group/work.h"

namespace weft {

class Store;

struct GroupOptions {
  std::string name = "world";
  int64_t timeout_ns = 0;       // per operation; 0: the option timeout_s
  int64_t init_timeout_ns = 0;  // 0: timeout_ns
  // Of a group that is split from another one: what the user has called.
  Purpose::Kind made_by = Purpose::Kind::kSplit;
  // Of one that is split from another one: its failure ends that one as well, and so all others
  // that were split from it.
  bool ends_whole = false;
  // Of ranks of an island that are split from their group, or made anew, as part of a larger one: the ranks that they have in that, by rank.
  std::vector<int> group_ranks = {};
  // Of one that is made anew as part of a larger one: which time that is; 0: one more than the last.
  uint32_t epoch = 0;
  // Of one that is made anew with open places: where those are met who take them.
  Store* newcomers = nullptr;

  // The deadline for making the group.
  int64_t making_timeout_ns() const { return init_timeout_ns > 0 ? init_timeout_ns : timeout_ns; }
};

// As weft_group_stats_t.
struct GroupStats {
  uint64_t collectives = 0;
  uint64_t messages = 0;
  uint64_t failures = 0;
  uint64_t in_bytes = 0;
  uint64_t out_bytes = 0;
  uint64_t pending = 0;
  int64_t wait_ns = 0;
  uint64_t shared_bytes = 0;
  uint64_t private_bytes = 0;
  uint64_t node_messages = 0;
  uint64_t node_bytes = 0;
  uint64_t net_messages = 0;
  uint64_t net_bytes = 0;
};

// Where all ranks' buffers are: private, reachable by all, or reachable with one out for all.
enum class BufferKind : uint8_t { kPrivate, kSymmetric, kShared };

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  // How often it has been made: one more after each Reconfigure().
  virtual uint32_t epoch() const { return 1; }

  // The rank's number in the group that this one, and all between, were split from.
  virtual int world_rank(int rank) const { return rank; }

  // Does one collective on the calling thread. Arguments were checked by CheckCollective.
  virtual absl::Status Run(const Collective& collective) = 0;

  // As Run, if the group has done a call of that key before: it need not be checked again, and its buffers
  // are looked at here. True if it has been done well. Else *failure says why not; if that is still Ok, nothing
  // has happened: the group does not know the call, or its buffers are wrong, or something is in the way, and
  // CheckCollective and Run do or say what is right.
  virtual bool TryRunCached(const CallKey& key, const void* in, void* out, absl::Status* failure);
  // The same with extras: a form of its own, so that a call without any does not pay for them.
  virtual bool TryRunCached(const CallKey& key, const void* in, void* out, const CallExtras& extras,
                            absl::Status* failure);

  // Starts one; the buffers stay the operation's until it has ended.
  virtual absl::StatusOr<WorkRef> Start(const Collective& collective) = 0;

  // Start as TryRunCached is to Run: if the group has done or started a call of that key before. True if it has started.
  virtual bool TryStartCached(const CallKey& key, const void* in, void* out,
                              const CallExtras& extras, WorkRef* started);

  // One send, receive or probe: as Run and Start of a collective, with messages and collectives not ordering
  // each other. Arguments were checked by CheckMessage. UNSUPPORTED where groups have no messages.
  virtual absl::Status Run(const Message& message);
  virtual absl::StatusOr<WorkRef> Start(const Message& message);

  // A send and a receive at once, which cannot deadlock; checked by CheckPair.
  virtual absl::Status RunPair(const Message& send, const Message& recv);
  virtual absl::StatusOr<WorkRef> StartPair(const Message& send, const Message& recv);

  // Whether a probe finds a message now. Never waits for a peer.
  virtual absl::StatusOr<bool> TryProbe(const Message& probe);

  // This rank does not make the call, of the collectives, that the others make next: it takes the call's place in the order, and they are told
  // why (refusal.h). nullopt: it is none of the known ones. Never waits.
  virtual absl::Status Refuse(std::optional<OpKind> refused, std::string_view reason);

  // Cuts the group; collective. nullptr for color < 0.
  virtual absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                              const GroupOptions& options) = 0;

  // Makes the group in which the ranks that live go on: members[i] becomes rank i, -1 is a place for a process that joins by
  // options.newcomers; without members all that live, in their order. Collective over those that live; all end alike. nullptr on a rank that is not listed. After Ok this group is
  // closed; else it is as it was, or has ended. UNSUPPORTED where ranks do not share memory.
  virtual absl::StatusOr<std::shared_ptr<ProcessGroup>> Reconfigure(const std::vector<int>& members,
                                                                    const GroupOptions& options);

  // A block that all ranks have, each at an address of its own; both calls are collective. UNSUPPORTED where
  // ranks do not share memory.
  virtual absl::StatusOr<void*> AllocateShared(size_t bytes);
  virtual absl::Status FreeShared(void* memory);

  // What the group would do for a call on such buffers, and why, in lines of "name: value".
  virtual std::string Explain(const Collective& collective, BufferKind buffers) const = 0;

  // What this rank has done with the group. Never waits.
  virtual GroupStats stats() const = 0;

  // Collectives that this rank has issued: the sequence number of the last one. Never waits.
  virtual uint64_t sequence() const = 0;

  // The deadline of operations that are issued from now on and have none of their own; 0: the option timeout_s. Of this
  // rank only. Never waits.
  virtual void SetTimeout(int64_t timeout_ns) = 0;

  // Ok, or why the group no longer works.
  virtual absl::Status error() = 0;

  // Ends all operations on all ranks with WEFT_ABORTED, or with the loss of a rank, if one is lost.
  virtual void Abort(std::string_view reason) = 0;

  // Ends all operations on all ranks with `cause`, the failure of another group: this one cannot go on without that.
  virtual void Fail(const absl::Status& cause);

  // nullptr where ranks do not share memory.
  virtual NoticeBoard* notices() { return nullptr; }

  // Leaves the group: operations under way are aborted, later calls refused. Not collective.
  virtual void Close() = 0;

 private:
  absl::Status NoMessages() const;
  absl::Status NoSharedMemory() const;
};

// INVALID_ARGUMENT with a sentence, or Ok: NULL, unknown dtype or op, sizes over PTRDIFF_MAX,
// overlap of in and out other than in place, root outside the group.
absl::Status CheckCollective(const Collective& collective, int rank, int size);

// The fields of an error that rank `culprit` caused; -1: nobody is known to have.
ErrorFields CulpritOf(const ProcessGroup& group, int culprit, std::string_view operation);

}  // namespace weft
