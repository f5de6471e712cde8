#include "comm/rendezvous/membership.h"

#include <optional>

#include <sys/stat.h>

#include "base/later.h"
#include "base/proc.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/membership_exchange.h"

namespace weft {
namespace {

// At most so long between two looks at the members' processes.
constexpr int64_t kLookNs = 100'000'000;

// The store may be on a member that has ended: that says more than that the store is gone.
bool IsLoss(const absl::Status& status) {
  return !status.ok() && ResultOf(status) != WEFT_TIMEOUT;
}

}  // namespace

Member DescribeSelf(int rank) {
  SystemProc proc;
  const ProcessIdentity self = proc.Self();
  Member member;
  member.rank = rank;
  member.pid = self.pid;
  member.start_time = self.start_time;
  member.host = self.host;
  member.boot_id = self.boot_id;
  struct stat pid_namespace = {};
  if (stat("/proc/self/ns/pid", &pid_namespace) == 0) member.pid_namespace = pid_namespace.st_ino;
  return member;
}

absl::StatusOr<Membership> ExchangeMembership(Store& store, std::string_view group_name, int rank,
                                              int size, const Member& self, int64_t deadline_ns) {
  MembershipExchange exchange(SystemSeams(), group_name, rank, size, self, deadline_ns);
  MemberWatch watch(self, std::string(group_name));
  size_t watched = 0;
  int64_t looked_ns = MonotonicNs();
  while (std::optional<StoreRequest> request = exchange.Next()) {
    const StoreReply reply = Perform(store, *request);
    if (IsLoss(reply.status)) {
      WEFT_RETURN_IF_ERROR(watch.AwaitEnd(Later(MonotonicNs(), MemberWatch::kEndNs)));
    }
    exchange.Take(reply);
    for (; watched < exchange.known().size(); ++watched)
      watch.Add(exchange.known()[watched]);
    if (MonotonicNs() - looked_ns < kLookNs) continue;
    looked_ns = MonotonicNs();
    if (absl::Status lost = watch.Look(); !lost.ok()) exchange.Lose(std::move(lost));
  }
  return exchange.result();
}

}  // namespace weft
