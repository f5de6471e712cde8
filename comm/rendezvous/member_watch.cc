#include "comm/rendezvous/member_watch.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

// The higher, the more likely the first of several ends.
int RankOfCause(const ExitInfo& exit) {
  if (exit.signal > 0) return 2;
  return exit.signal < 0 ? 1 : 0;
}

}  // namespace

MemberWatch::MemberWatch(Proc& proc, const GroupMember& self, std::string group_name)
    : proc_(proc), self_(self), group_(std::move(group_name)) {}

void MemberWatch::Add(const GroupMember& member) {
  const bool known_pid = member.pid > 0 && member.boot_id == self_.boot_id &&
                         member.pid_namespace != 0 && member.pid_namespace == self_.pid_namespace;
  if (!known_pid || (member.pid == self_.pid && member.start_time == self_.start_time)) return;
  for (const Watched& watched : watched_) {
    if (watched.member.rank == member.rank) return;
  }
  absl::StatusOr<std::unique_ptr<PeerProcess>> process = proc_.Open(member.pid, member.start_time);
  if (!process.ok()) {
    // Its end is told by its connection, or by the deadline.
    LogDebug("group ", group_, ": rank ", member.rank, ": ", FromAbsl(process.status().message()));
    return;
  }
  watched_.push_back({member, *std::move(process)});
}

// Who is found to have ended may have given up because of one that was looked at before it, and ended since: that one is
// found when all are looked at again.
absl::Status MemberWatch::Look() {
  const Watched* lost = nullptr;
  std::optional<ExitInfo> how;
  for (int pass = 0; pass < 2; ++pass) {
    for (const Watched& watched : watched_) {
      if (!watched.process->Ended()) continue;
      const ExitInfo exit = watched.process->Exit();
      if (how && RankOfCause(exit) <= RankOfCause(*how)) continue;
      lost = &watched;
      how = exit;
    }
    if (lost == nullptr) return also_ ? also_() : absl::OkStatus();
  }
  return Lost(lost->member, *how);
}

absl::Status MemberWatch::AwaitEnd(int64_t deadline_ns) {
  std::vector<pollfd> items;
  while (true) {
    WEFT_RETURN_IF_ERROR(Look());
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (left_ns <= 0 || watched_.empty()) return absl::OkStatus();
    items.clear();
    AppendPollItems(&items);
    poll(items.data(), items.size(), static_cast<int>(left_ns / 1'000'000 + 1));
  }
}

void MemberWatch::AppendPollItems(std::vector<pollfd>* items) const {
  for (const Watched& watched : watched_)
    items->push_back({watched.process->fd(), POLLIN, 0});
}

absl::Status MemberWatch::Lost(const GroupMember& member, const ExitInfo& exit) const {
  return MakeError(
      WEFT_PEER_LOST,
      {.rank = member.rank,
       .pid = member.pid,
       .signal = exit.signal,
       .exit_code = exit.exit_code,
       .host = member.host,
       .group = group_},
      StrCat("group ", group_, ": rank ", member.rank, " (pid ", member.pid, " on ", member.host,
             ") ", exit.ToString(), " while the group was made; look at that rank's output"));
}

}  // namespace weft
