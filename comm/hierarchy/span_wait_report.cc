// An operation waits for one rank after the other, and all of that is one wait; a call that follows is another one. Messages have no
// numbers that ranks share: there it is another one when a message has ended in between, or another
// rank is waited for.
#include "comm/hierarchy/span_wait_report.h"

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "comm/recorder/describe.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kLookWhileWaitingNs = 100'000'000;

// It is the same wait, as far as can be seen. `moved`: a message has ended in between.
bool Continues(const std::optional<SpanWait>& before, const std::optional<SpanWait>& now,
               bool moved) {
  if (!before || !now || before->sequence != now->sequence) return false;
  return now->sequence != 0 || (before->awaited == now->awaited && !moved);
}

}  // namespace

SpanWaitReport::SpanWaitReport(std::string group, uint32_t epoch, int rank,
                               std::shared_ptr<SpanRecords> records,
                               std::shared_ptr<const SpanEnd> end)
    : group_(std::move(group)),
      epoch_(epoch),
      rank_(rank),
      records_(std::move(records)),
      end_(std::move(end)) {}

void SpanWaitReport::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  shown_.reset();
}

std::string SpanWaitReport::Call() const {
  std::string what = "a message";
  if (wait_->sequence != 0) {
    what = fmt::format("a collective #{}", wait_->sequence);
    const std::optional<RecordedCall> last = records_->calls().Last();
    // The wait has the low half of its number, and is none of a later call.
    const uint32_t behind =
        last ? static_cast<uint32_t>(last->sequence) - wait_->sequence : uint32_t{0};
    const auto call = last ? records_->calls().Find(last->sequence - behind) : std::nullopt;
    if (call) what = fmt::format("{} #{}", DescribeArguments(*call), call->sequence);
  }
  return fmt::format("{} on group {}", what, group_);
}

void SpanWaitReport::Report(int64_t now_ns) {
  const int64_t waited_ns = now_ns - since_ns_;
  const bool stuck = waited_ns >= stuck_ns_;
  if (!stuck && waited_ns >= kStuckNs) return;
  const bool any = wait_->awaited < 0;
  const SpanEnd::LastWait last =
      any ? SpanEnd::LastWait{rank_, -1} : end_->LastWaitFrom(rank_, wait_->awaited);
  const int holding_up = last.holding_up;
  const bool stalls = !any && end_->Stalls(holding_up);
  if (!stuck && (!stalls || stalled_told_ == holding_up)) return;
  const std::string waiting = fmt::format("{} has waited for {:.0f} s on rank {}: ", Call(),
                                          static_cast<double>(waited_ns) * 1e-9, rank_);
  const std::string whom = any ? "no rank has sent one" : end_->Describe(holding_up);
  const std::string link = any || stalls ? "" : end_->LinkText(last);
  const std::string by_way = any || holding_up == wait_->awaited
                                 ? ""
                                 : fmt::format("; rank {} waits as well", wait_->awaited);
  const LifecycleEvent event{.kind = stuck ? LifecycleKind::kStuck : LifecycleKind::kStalled,
                             .epoch = epoch_,
                             .rank = holding_up,
                             .sequence = wait_->sequence != 0 ? int64_t{wait_->sequence} : -1};
  records_->events().Record(event);
  if (stuck) {
    stuck_ns_ *= 2;
    if (!link.empty())
      LogWarn(waiting, link, "; it goes on waiting until its deadline");
    else
      LogWarn(waiting, whom, any ? "" : " holds it up", by_way,
              "; it goes on waiting until its deadline");
  } else {
    stalled_told_ = holding_up;
    LogWarn(waiting, whom, " holds it up; it goes on when that process does");
  }
}

// For a rank of this island that has not come: those that have wait for each other as long as data moves. The version is made of all that
// the wait is: the group, the call or how many messages have ended, who is awaited.
void SpanWaitReport::Describe() {
  shown_.reset();
  if (!wait_ || wait_->awaited < 0 || !records_->Has(wait_->awaited)) return;
  const bool has_come =
      wait_->sequence != 0 ? records_->HasCome(wait_->awaited, wait_->sequence) : wait_->begun;
  if (has_come) return;
  NumberHash hash;
  hash.Add(end_->group_id());
  hash.Add(wait_->sequence);
  hash.Add(wait_->sequence != 0 ? 0 : messages_ended_);
  hash.Add(static_cast<uint64_t>(wait_->awaited));
  ProcessWait shown{};
  shown.process = end_->ProcessOf(rank_);
  shown.version = hash.Get();
  shown.since_ns = since_ns_;
  shown.looks = ++looks_;
  shown.awaited_count = 1;
  shown.awaited[0] = end_->ProcessOf(wait_->awaited);
  CopyText(shown.call, fmt::format("rank {} in {}", rank_, Call()));
  shown_ = shown;
}

int64_t SpanWaitReport::Look(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (closed_) return INT64_MAX;
  const uint64_t ended = records_->MessagesEnded(rank_);
  const bool moved = std::exchange(messages_ended_, ended) != ended;
  const std::optional<SpanWait> wait = records_->WaitOf(rank_);
  if (!Continues(wait_, wait, moved)) {
    since_ns_ = now_ns;
    stuck_ns_ = kStuckNs;
    stalled_told_ = -1;
  }
  wait_ = wait;
  Describe();
  if (!wait_) return INT64_MAX;
  if (now_ns - since_ns_ >= kStalledNs) Report(now_ns);
  return now_ns + kLookWhileWaitingNs;
}

std::optional<ProcessWait> SpanWaitReport::Wait() const {
  MutexLock lock(mutex_);
  return shown_;
}

}  // namespace weft
