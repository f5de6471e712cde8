#include "comm/node/wait_report.h"

#include "base/log.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "comm/group/progress.h"
#include "comm/node/long_wait.h"
#include "comm/recorder/describe.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kLookWhileWaitingNs = 100'000'000;
constexpr int64_t kStarvedNs = 1'000'000'000;
constexpr int64_t kStarvedPercent = 80;

}  // namespace

ProcessName ProcessNameOf(const NodePeer& peer) {
  return {.pid = peer.identity().pid, .start_time = peer.identity().start_time};
}

std::optional<WaitReport::Wait> WaitReport::Find() const {
  if (AwaitsRanks(state_)) return Wait{.of_messages = false, .ended = counters_.ended()};
  if (!AwaitsRanksInMessages(state_)) return std::nullopt;
  return Wait{.of_messages = true,
              .ended = counters_.Read().messages,
              .number = counters_.message_wait().number};
}

// Operations end in order, so it is the one after those that have ended. None of messages.
std::optional<RecordedCall> WaitReport::Recorded() const {
  if (wait_->of_messages) return std::nullopt;
  return state_.recorder.Find(wait_->ended + 1);
}

std::string WaitReport::Call() const {
  std::string what = "a message";
  if (const auto call = Recorded()) {
    what = fmt::format("{} #{}", DescribeArguments(*call), call->sequence);
  } else if (!wait_->of_messages) {
    what = fmt::format("a collective #{}", wait_->ended + 1);
  }
  return fmt::format("{} on group {}", what, failures_.names().group());
}

std::string WaitReport::Waiting(int64_t waited_ns) const {
  std::string phase;
  const auto call = Recorded();
  if (call && call->progress.rounds > 1) phase = " (" + DescribeProgress(call->progress) + ")";
  return fmt::format("{}{} has waited for {:.0f} s on rank {}: ", Call(), phase,
                     static_cast<double>(waited_ns) * 1e-9, state_.GroupRank(state_.rank));
}

// The version is made of all that the wait is: the group, the call or how often messages have
// moved, who is awaited. A message from anybody needs none of them; one that has met its other half
// waits for nobody's call, where a thread of weft's moves it.
std::optional<ProcessWait> WaitReport::Describe() const {
  const std::vector<int> awaited =
      wait_->of_messages ? RanksAwaitedInMessages(state_) : RanksNotArrived(state_);
  if (awaited.empty() || (wait_->of_messages && awaited.size() > 1)) return std::nullopt;
  if (wait_->of_messages && counters_.message_wait().begun && !CallerDrivesProgress())
    return std::nullopt;
  const auto name = [&](int rank) {
    return ProcessNameOf(*state_.peers[static_cast<size_t>(rank)]);
  };
  ProcessWait shown{};
  NumberHash hash;
  hash.Add(state_.segment.header().group_id);
  hash.Add(wait_->ended * 2 + (wait_->of_messages ? 1 : 0));
  hash.Add(wait_->number);
  for (const int rank : awaited) {
    if (shown.awaited_count == ProcessWait::kAwaitedMax) break;
    hash.Add(static_cast<uint64_t>(rank));
    shown.awaited[shown.awaited_count++] = name(rank);
  }
  if (shown_ && shown_->version == hash.Get()) return shown_;
  shown.process = name(state_.rank);
  shown.version = hash.Get();
  shown.since_ns = since_ns_;
  CopyText(shown.call, fmt::format("rank {} in {}", state_.GroupRank(state_.rank), Call()));
  return shown;
}

// Over the last second: it was ready to run most of the time, and ran almost never.
bool WaitReport::Starves(int rank, int64_t now_ns) {
  CpuWait& last = cpu_waits_[static_cast<size_t>(rank)];
  const std::optional<int64_t> wait_ns = state_.peers[static_cast<size_t>(rank)]->CpuWaitNs();
  const int64_t passed_ns = now_ns - last.looked_ns;
  if (!wait_ns || passed_ns < kStarvedNs) return false;
  const bool known = last.looked_ns >= since_ns_;
  const bool starves = known && (*wait_ns - last.wait_ns) * 100 >= passed_ns * kStarvedPercent;
  last = {now_ns, *wait_ns};
  return starves;
}

void WaitReport::ReportStalled(const std::vector<int>& holding_up, int64_t now_ns) {
  for (const int rank : holding_up) {
    const auto bit = static_cast<size_t>(rank);
    if (stalled_told_[bit]) continue;
    const ProcessState state = state_.peers[bit]->State();
    const bool starves = state == ProcessState::kRunning && Starves(rank, now_ns);
    if (!starves && !IsStalled(state)) continue;
    stalled_told_.set(bit);
    state_.lifecycle.Record({.kind = LifecycleKind::kStalled,
                             .epoch = state_.epoch,
                             .rank = rank,
                             .other = static_cast<uint64_t>(ProcessStateLetter(state))});
    LogWarn(Waiting(now_ns - since_ns_), failures_.WhereIs(rank),
            starves ? " holds it up: it is ready to run, but gets almost no CPU"
                    : " holds it up; it goes on when that process does");
  }
}

void WaitReport::Report(int64_t now_ns) {
  const int64_t waited_ns = now_ns - since_ns_;
  const std::vector<int> awaited =
      wait_->of_messages ? RanksAwaitedInMessages(state_) : RanksAwaited(state_);
  if (awaited.empty()) return;  // it is over
  const std::vector<int> holding_up = RanksHoldingUp(state_, awaited);
  if (waited_ns < kStuckNs) return ReportStalled(holding_up, now_ns);
  if (waited_ns < stuck_ns_) return;
  stuck_ns_ *= 2;
  state_.lifecycle.Record(
      {.kind = LifecycleKind::kStuck,
       .epoch = state_.epoch,
       .rank = holding_up.front(),
       .sequence = wait_->of_messages ? -1 : static_cast<int64_t>(wait_->ended) + 1});
  LogWarn(Waiting(waited_ns),
          wait_->of_messages ? failures_.Missing(holding_up, awaited)
                             : failures_.HoldingUp(wait_->ended + 1, holding_up, awaited,
                                                   static_cast<double>(waited_ns) * 1e-9),
          "; it goes on waiting until its deadline");
}

int64_t WaitReport::Look(int64_t now_ns) {
  const std::optional<Wait> wait = Find();
  if (wait != wait_) {
    wait_ = wait;
    since_ns_ = now_ns;
    stuck_ns_ = kStuckNs;
    stalled_told_.reset();
  }
  shown_ = wait_ ? Describe() : std::nullopt;
  if (shown_) shown_->looks = ++looks_;
  if (!wait_) return INT64_MAX;
  if (now_ns - since_ns_ >= kStalledNs) Report(now_ns);
  return now_ns + kLookWhileWaitingNs;
}

}  // namespace weft
