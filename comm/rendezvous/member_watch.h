// Whether the members of a group that is being made still live.
//
//   MemberWatch watch(*SystemSeams().proc, self, group_name);
//   watch.Add(member);                        // as they become known
//   if (const absl::Status lost = watch.Look(); !lost.ok()) return lost;
//
// Only what is proven counts: a member is watched if its process id means the same here, which takes the
// same machine and the same pid namespace. Others are told by their connections, and by the deadline.
//
// Thread-safety: owned by one thread. Holds a descriptor per member.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include "absl/status/status.h"
#include "base/proc.h"
#include "comm/rendezvous/membership.h"

namespace weft {

class MemberWatch {
 public:
  // How long after a connection has closed its process may take to end: the kernel closes first.
  static constexpr int64_t kEndNs = 300'000'000;

  // `proc` outlives the object.
  MemberWatch(Proc& proc, const GroupMember& self, std::string group_name);

  // From now on Look() asks this, too, when all members live: anything but Ok is why the group does not come about.
  void AlsoAsk(std::function<absl::Status()> question) { also_ = std::move(question); }

  // Watches it too, unless it is this process, cannot be watched, or is watched already.
  void Add(const GroupMember& member);

  // Ok while all live and nothing else is in the way; else PEER_LOST that names one. Whom a signal ended comes before who exited by
  // itself: that one may have given up because of the other.
  absl::Status Look();
  // As Look, but waits until some process has ended, but not beyond the deadline.
  absl::Status AwaitEnd(int64_t deadline_ns);

  // What becomes readable when a process ends, for a poll of the caller's.
  void AppendPollItems(std::vector<pollfd>* items) const;

 private:
  struct Watched {
    GroupMember member;
    std::unique_ptr<PeerProcess> process;
  };

  absl::Status Lost(const GroupMember& member, const ExitInfo& exit) const;

  Proc& proc_;
  const GroupMember self_;
  const std::string group_;
  std::vector<Watched> watched_;
  std::function<absl::Status()> also_;
};

}  // namespace weft
