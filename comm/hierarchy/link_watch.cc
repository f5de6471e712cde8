#include "comm/hierarchy/link_watch.h"

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kToldAgainNs = 10'000'000'000;

std::string RankText(const GroupMember& member) {
  return fmt::format("rank {} (host {})", member.rank, member.host);
}

}  // namespace

LinkWatch::LinkWatch(Transport& transport, std::vector<GroupMember> members, int rank,
                     std::function<void(const std::vector<LinkNote>&)> show)
    : transport_(transport), members_(std::move(members)), rank_(rank), show_(std::move(show)) {}

void LinkWatch::Close() {
  MutexLock lock(mutex_);
  show_ = nullptr;
}

LinkNote LinkWatch::NoteOf(const LinkHealth::Finding& found) const {
  return {.rank = members_[static_cast<size_t>(rank_)].world_rank,
          .peer = members_[static_cast<size_t>(found.peer)].world_rank,
          .stalled = found.stalled,
          .from = found.addresses.from,
          .to = found.addresses.to,
          .unacknowledged_bytes = found.stream.unacknowledged_bytes,
          .quiet_ns = found.quiet_ns,
          .sent_again = static_cast<uint32_t>(found.stream.sent_again),
          .packet_bytes = found.stream.packet_bytes,
          .sent_rate = found.sent_rate,
          .received_rate = found.received_rate};
}

void LinkWatch::Report(const LinkHealth::Finding& found) {
  int64_t& at_ns = told_.try_emplace({found.peer, found.connection}, int64_t{0}).first->second;
  if (found.quiet_ns < at_ns) return;
  at_ns = std::max(kToldAgainNs, 2 * at_ns);
  LogWarn(NoteOf(found).Sentence(RankText(members_[static_cast<size_t>(rank_)]),
                                 RankText(members_[static_cast<size_t>(found.peer)])));
}

void LinkWatch::ReportEnds(const std::vector<LinkHealth::Finding>& findings) {
  for (auto told = told_.begin(); told != told_.end();) {
    const bool stalled =
        std::any_of(findings.begin(), findings.end(), [&](const LinkHealth::Finding& found) {
          return found.stalled && told->first == std::pair(found.peer, found.connection);
        });
    if (stalled) {
      ++told;
      continue;
    }
    LogInfo("the link of rank ", rank_, " to rank ", told->first.first, " is not stalled any more");
    told = told_.erase(told);
  }
}

int64_t LinkWatch::Look(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (show_ == nullptr) return INT64_MAX;
  if (now_ns < next_ns_) return next_ns_;
  next_ns_ = now_ns + LinkHealth::kLookNs;
  std::vector<LinkTraffic> traffic;
  transport_.AppendTraffic(&traffic);
  health_.Look(traffic, now_ns);
  const std::vector<LinkHealth::Finding> findings = health_.Findings(now_ns);
  std::vector<LinkNote> notes;
  for (const LinkHealth::Finding& found : findings) {
    if (found.stalled) Report(found);
    if (notes.size() < LinkNote::kNotesMax) notes.push_back(NoteOf(found));
  }
  if (!told_.empty()) ReportEnds(findings);
  if (shown_ || !notes.empty()) show_(notes);
  shown_ = !notes.empty();
  return next_ns_;
}

}  // namespace weft
