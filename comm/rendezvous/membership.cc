#include "comm/rendezvous/membership.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "base/interfaces.h"
#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
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

// How long a store may take to remove keys. Nobody needs it to.
constexpr int64_t kRemoveNs = 2'000'000'000;

constexpr size_t kMemberHostBytesMax = 256;
constexpr size_t kMemberBootIdBytesMax = 64;
constexpr size_t kMemberSocketBytesMax = 108;
constexpr size_t kMemberAddressBytesMax = 128;
constexpr size_t kMemberRailBytesMax = 64;  // the longest is "tcp:[IPv6]:port"
constexpr size_t kMemberChoiceBytesMax = 128;
constexpr size_t kMemberSecretBytesMax = 64;
constexpr size_t kMemberTransportBytesMax = 8;
// A member has one of the two, so that a part of the members still is a value of the store.
constexpr size_t kMemberUcxBytesMax = 1024;

// The inode of a namespace of this process, its number; 0 if it is not known.
uint64_t NamespaceNumber(const char* path) {
  struct stat info = {};
  return stat(path, &info) == 0 ? info.st_ino : 0;
}

// The store may be on a member that has ended: that says more than that the store is gone.
bool IsLoss(const absl::Status& status) {
  return !status.ok() && ResultOf(status) != WEFT_TIMEOUT;
}

}  // namespace

std::vector<GroupMember> Renumbered(const std::vector<GroupMember>& members,
                                    const std::vector<int>& ranks) {
  std::vector<GroupMember> renumbered;
  renumbered.reserve(ranks.size());
  for (const int rank : ranks) {
    renumbered.push_back(members[static_cast<size_t>(rank)]);
    renumbered.back().rank = static_cast<int32_t>(renumbered.size()) - 1;
  }
  return renumbered;
}

GroupMember DescribeSelf(int rank) {
  SystemProc proc;
  const ProcessIdentity self = proc.Self();
  GroupMember member;
  member.rank = rank;
  member.world_rank = rank;
  member.pid = self.pid;
  member.start_time = self.start_time;
  member.host = self.host;
  member.boot_id = self.boot_id;
  member.pid_namespace = NamespaceNumber("/proc/self/ns/pid");
  member.network_namespace = NamespaceNumber("/proc/self/ns/net");
  member.uid = geteuid();
  return member;
}

void WriteMember(const GroupMember& member, WireWriter& writer) {
  writer.I32(member.world_rank);
  writer.I32(member.pid);
  writer.U64(member.start_time);
  writer.U64(member.pid_namespace);
  writer.U64(member.network_namespace);
  writer.U32(member.uid);
  writer.Text(member.host.substr(0, kMemberHostBytesMax));
  writer.Text(member.boot_id.substr(0, kMemberBootIdBytesMax));
  writer.Text(member.node_socket.substr(0, kMemberSocketBytesMax));
  writer.I32(member.fake_node);
  writer.Text(member.agent.substr(0, kMemberAddressBytesMax));
  const size_t rails = std::min(member.data.size(), kRailsMax);
  writer.U16(static_cast<uint16_t>(rails));
  for (size_t rail = 0; rail < rails; ++rail)
    writer.Text(member.data[rail].substr(0, kMemberRailBytesMax));
  writer.Text(member.choice.substr(0, kMemberChoiceBytesMax));
  writer.Text(member.link_secret.substr(0, kMemberSecretBytesMax));
  writer.Text(member.transport.substr(0, kMemberTransportBytesMax));
  writer.Text(member.ucx.substr(0, kMemberUcxBytesMax));
  writer.Text(member.ucx.empty() ? member.ucx_refusal.substr(0, kMemberUcxBytesMax) : "");
}

void ReadMember(WireReader& reader, GroupMember& member) {
  member.world_rank = reader.I32();
  member.pid = reader.I32();
  member.start_time = reader.U64();
  member.pid_namespace = reader.U64();
  member.network_namespace = reader.U64();
  member.uid = reader.U32();
  member.host = std::string(reader.Text(kMemberHostBytesMax));
  member.boot_id = std::string(reader.Text(kMemberBootIdBytesMax));
  member.node_socket = std::string(reader.Text(kMemberSocketBytesMax));
  member.fake_node = reader.I32();
  member.agent = std::string(reader.Text(kMemberAddressBytesMax));
  const size_t rails = reader.U16();
  if (rails > kRailsMax) return reader.Fail();
  member.data.clear();
  for (size_t rail = 0; rail < rails; ++rail)
    member.data.emplace_back(reader.Text(kMemberRailBytesMax));
  member.choice = std::string(reader.Text(kMemberChoiceBytesMax));
  member.link_secret = std::string(reader.Text(kMemberSecretBytesMax));
  member.transport = std::string(reader.Text(kMemberTransportBytesMax));
  member.ucx = std::string(reader.Text(kMemberUcxBytesMax));
  member.ucx_refusal = std::string(reader.Text(kMemberUcxBytesMax));
}

absl::StatusOr<Membership> ExchangeMembership(Store& store, std::string_view group_name, int rank,
                                              int size, const GroupMember& self,
                                              int64_t deadline_ns, MemberWatch& watch) {
  MembershipExchange exchange(SystemSeams(), group_name, rank, size, self, deadline_ns);
  size_t watched = 0;
  int64_t looked_ns = MonotonicNs();
  bool interrupted = false;
  while (std::optional<StoreRequest> request = exchange.Next()) {
    // A slice does not outlast the time to the next look for an interrupt; other waits stay what they are.
    const int64_t now_ns = MonotonicNs();
    if (request->deadline_ns > now_ns &&
        request->deadline_ns <= Later(now_ns, MembershipExchange::kSliceNs)) {
      request->deadline_ns = Later(now_ns, UntilInterruptNs(request->deadline_ns - now_ns));
    }
    const StoreReply reply = store.Ask(*request);
    if (IsLoss(reply.status)) {
      WEFT_RETURN_IF_ERROR(watch.AwaitEnd(Later(MonotonicNs(), MemberWatch::kEndNs)));
    }
    exchange.Take(reply);
    if (const auto notice = exchange.TakeNotice(store.Where()); notice.has_value())
      LogWarn(*notice);
    for (; watched < exchange.known().size(); ++watched)
      watch.Add(exchange.known()[watched]);
    if (Interrupted() && TakeInterrupt()) interrupted = true;
    // Again and again: there are requests in between which it cannot give up at.
    if (interrupted) {
      exchange.GiveUp(
          MakeError(WEFT_ABORTED, {.rank = rank, .group = std::string(group_name)},
                    StrCat("group ", group_name, ": rank ", rank,
                           " was interrupted by its program while the group was made")));
    }
    if (MonotonicNs() - looked_ns < kLookNs) continue;
    looked_ns = MonotonicNs();
    if (absl::Status lost = watch.Look(); !lost.ok()) exchange.Lose(std::move(lost));
  }
  if (!interrupted || exchange.result().ok()) return exchange.result();
  return InterruptedError(StrCat("making group ", group_name));
}

void RemoveMembership(Store& store, std::string_view group_name, int rank, int size) {
  const int64_t deadline_ns = Later(MonotonicNs(), kRemoveNs);
  for (std::string& key : MembershipExchange::KeysWrittenBy(group_name, rank, size)) {
    const absl::Status removed = store
                                     .Ask({.kind = StoreRequest::Kind::kRemove,
                                           .key = std::move(key),
                                           .deadline_ns = deadline_ns})
                                     .status;
    if (removed.ok()) continue;
    LogInfo("group ", group_name, ", rank ", rank,
            ": the store keeps what the group was made with: ", FromAbsl(removed.message()));
    return;
  }
}

}  // namespace weft
