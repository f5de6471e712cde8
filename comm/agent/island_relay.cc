#include "comm/agent/island_relay.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int64_t kRelayNever = std::numeric_limits<int64_t>::max();
// The next step, even one whose time was taken before the news came: what has settled is not to be shown without being told.
constexpr int64_t kRelayNextStep = std::numeric_limits<int64_t>::min();
// Who has closed comes from many sides in short order, and is told together; a group's first record does not wait.
constexpr int64_t kTogetherShare = 8;  // of the time in which causes are gathered

// Facts first. A rank that ended by itself may have done so because of the mismatch, or leave what
// others called as it is.
int CauseOrder(const FailureRecord& record) {
  switch (record.result) {
    case WEFT_PEER_LOST:
      return record.exit.signal > 0 ? 0 : 2;
    case WEFT_MISMATCH:
      return 1;
    case WEFT_UNREACHABLE:
      return 3;
    case WEFT_TIMEOUT:
      return 4;
    case WEFT_ABORTED:
      return 6;
    default:
      return 5;  // a failure of the finder's own: a cause, if there is nothing better
  }
}

// An order of all records that differ; nobody comes last among culprits. At a deadline many are named that only waited themselves.
auto RecordKeyOf(const FailureRecord& record) {
  const int untraced = FailureRecord::kTracedToLink - record.traced;
  const auto culprit = static_cast<uint32_t>(record.culprit);  // -1 is the largest
  return std::make_tuple(CauseOrder(record), untraced, culprit, record.origin, record.sequence,
                         record.finder);
}

}  // namespace

bool BeatsRecord(const FailureRecord& a, const FailureRecord& b) {
  return RecordKeyOf(a) < RecordKeyOf(b);
}

IslandRelay::IslandRelay(IslandNumberSet islands, int self, int64_t gather_ns, int64_t patience_ns)
    : islands_(std::move(islands)),
      self_(self),
      gather_ns_(gather_ns),
      patience_ns_(patience_ns),
      gone_(islands_.bound()) {}

void IslandRelay::Restore(const GroupVerdict& verdict, int64_t now_ns) {
  Group& group = groups_[verdict.record.group_id];
  group.verdict = verdict;
  group.close_ns = now_ns + gather_ns_;
  group.patience_ns = now_ns + patience_ns_;
  group.order = next_order_++;
  if (verdict.settled) settled_.push_back(verdict);
}

const GroupVerdict* IslandRelay::Of(uint64_t group_id) const {
  const auto found = groups_.find(group_id);
  return found == groups_.end() ? nullptr : &found->second.verdict;
}

absl::Status IslandRelay::Raise(const FailureRecord& record, int64_t now_ns) {
  Group* const group = Find(record.group_id, now_ns, record);
  if (group == nullptr) {
    return MakeError(WEFT_OUT_OF_MEMORY,
                     StrCat("the failures of ", kGroupsMax,
                            " groups are being told already; another one has to wait"));
  }
  GroupVerdict& verdict = group->verdict;
  if (verdict.record == record) return absl::OkStatus();
  if (verdict.settled || verdict.closed.Has(self_)) {
    return MakeError(WEFT_BAD_STATE, "why the group has ended is decided already");
  }
  if (BeatsRecord(record, verdict.record)) {
    verdict.record = record;
    News(group, now_ns, true);
  }
  return absl::OkStatus();
}

void IslandRelay::Merge(int from, const GroupVerdict& theirs, int64_t now_ns) {
  if (!islands_.Has(from)) return;
  Group* const group = Find(theirs.record.group_id, now_ns, theirs.record);
  if (group == nullptr) return;
  GroupVerdict& ours = group->verdict;
  if (ours.settled || ours.excluded.Has(from)) return;
  const bool excluded = theirs.excluded.Has(self_);
  // Nobody can have counted on this island before it has closed, so it may take the others' word even then.
  if (theirs.settled && (!excluded || !ours.closed.Has(self_))) {
    ours = theirs;
    settled_.push_back(ours);
    News(group, now_ns, true);
    return;
  }
  if (excluded) {
    // These do not wait for this island, or will not: so it must not wait for them.
    IslandNumberSet others = islands_.Minus(theirs.excluded);
    others.Add(from);  // which may have taken the word of others that do not count it either
    others.Remove(self_);
    AddExcluded(group, others, now_ns);
    News(group, now_ns, false);
    return;
  }
  bool news = false;
  if (BeatsRecord(theirs.record, ours.record)) {
    ours.record = theirs.record;
    news = true;
  }
  if (!ours.excluded.Contains(theirs.excluded)) {
    AddExcluded(group, theirs.excluded, now_ns);
    news = true;
  }
  // What was closed given fewer exclusions does not count: that island may have taken something since.
  if (ours.excluded == theirs.excluded && ours.closed.AddAll(theirs.closed)) news = true;
  if (news) News(group, now_ns, false);
}

void IslandRelay::Exclude(const IslandNumberSet& islands) {
  gone_ = islands;
}

void IslandRelay::AddExcluded(Group* group, const IslandNumberSet& islands, int64_t now_ns) {
  GroupVerdict& verdict = group->verdict;
  if (!verdict.excluded.AddAll(islands)) return;
  group->patience_ns = now_ns + patience_ns_;
  const bool closed = verdict.closed.Has(self_);
  verdict.closed = IslandNumberSet(islands_.bound());
  if (closed) verdict.closed.Add(self_);
}

std::vector<GroupVerdict> IslandRelay::Step(int64_t now_ns) {
  std::vector<GroupVerdict> news;
  for (auto& [id, group] : groups_) {
    GroupVerdict& verdict = group.verdict;
    if (!verdict.settled) {
      IslandNumberSet gone = gone_;
      gone.Remove(self_);
      if (!verdict.excluded.Contains(gone)) {
        AddExcluded(&group, gone, now_ns);
        News(&group, now_ns, false);
      }
      CloseIfDue(&group, now_ns);
      CheckSettled(&group);
      if (verdict.settled) News(&group, now_ns, true);
    }
    if (now_ns < group.tell_ns) continue;
    group.tell_ns = kRelayNever;
    news.push_back(verdict);
  }
  return news;
}

void IslandRelay::CloseIfDue(Group* group, int64_t now_ns) {
  GroupVerdict& verdict = group->verdict;
  if (now_ns >= group->close_ns && verdict.closed.Add(self_)) {
    group->patience_ns = now_ns + patience_ns_;
    News(group, now_ns, false);
  }
  if (!verdict.closed.Has(self_) || now_ns < group->patience_ns) return;
  const IslandNumberSet silent = islands_.Minus(verdict.excluded).Minus(verdict.closed);
  if (silent.Empty()) return;
  AddExcluded(group, silent, now_ns);
  News(group, now_ns, false);
}

void IslandRelay::CheckSettled(Group* group) {
  GroupVerdict& verdict = group->verdict;
  if (!verdict.closed.Contains(islands_.Minus(verdict.excluded))) return;
  verdict.settled = true;
  settled_.push_back(verdict);
}

int64_t IslandRelay::NextWakeNs() const {
  int64_t wake_ns = kRelayNever;
  for (const auto& [id, group] : groups_) {
    wake_ns = std::min(wake_ns, group.tell_ns);
    if (group.verdict.settled) continue;
    const bool closed = group.verdict.closed.Has(self_);
    wake_ns = std::min(wake_ns, closed ? group.patience_ns : group.close_ns);
  }
  return wake_ns;
}

std::vector<GroupVerdict> IslandRelay::TakeSettled() {
  return std::exchange(settled_, {});
}

std::vector<GroupVerdict> IslandRelay::All() const {
  std::vector<GroupVerdict> all;
  for (const auto& [id, group] : groups_)
    all.push_back(group.verdict);
  return all;
}

// The group, made with this record if it is new.
IslandRelay::Group* IslandRelay::Find(uint64_t group_id, int64_t now_ns,
                                      const FailureRecord& record) {
  const auto known = groups_.find(group_id);
  if (known != groups_.end()) return &known->second;
  if (std::find(forgotten_.begin(), forgotten_.end(), group_id) != forgotten_.end()) return nullptr;
  if (groups_.size() >= kGroupsMax && !MakeRoom()) return nullptr;
  Group& group = groups_[group_id];
  group.verdict.record = record;
  group.verdict.excluded = IslandNumberSet(islands_.bound());
  group.verdict.closed = IslandNumberSet(islands_.bound());
  group.close_ns = now_ns + gather_ns_;
  group.order = next_order_++;
  News(&group, now_ns, true);
  return &group;
}

// Forgets a group that has settled.
bool IslandRelay::MakeRoom() {
  auto oldest = groups_.end();
  for (auto group = groups_.begin(); group != groups_.end(); ++group) {
    if (!group->second.verdict.settled || group->second.tell_ns != kRelayNever) continue;
    if (oldest == groups_.end() || group->second.order < oldest->second.order) oldest = group;
  }
  if (oldest == groups_.end()) return false;
  // An old frame must not bring it back.
  forgotten_.push_back(oldest->first);
  if (forgotten_.size() > kForgottenMax) forgotten_.pop_front();
  groups_.erase(oldest);
  return true;
}

void IslandRelay::News(Group* group, int64_t now_ns, bool urgent) {
  group->tell_ns =
      std::min(group->tell_ns, urgent ? kRelayNextStep : now_ns + gather_ns_ / kTogetherShare);
}

}  // namespace weft
