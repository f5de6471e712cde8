// Links are looked through one by one: there are some 2 log2 N of them. One that is to end stays until what it had to say is sent.
#include "comm/agent/island_links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int64_t kFirstDialPauseNs = 10'000'000;
constexpr int64_t kLinkLeaveNs = 1'000'000'000;
constexpr int64_t kLinkAcceptAgainNs = 100'000'000;
constexpr int kLinkAcceptsPerStep = 16;

}  // namespace

IslandLinks::IslandLinks(const Seams& seams, std::string secret, const IslandTimes& times,
                         const IslandMap& map, const IslandWho& self)
    : seams_(seams), secret_(std::move(secret)), times_(times), map_(map), self_(self) {}

IslandLinks::~IslandLinks() {
  if (listener_ >= 0) seams_.net->Close(listener_);
}

void IslandLinks::StopListening() {
  if (listener_ >= 0) seams_.net->StopListening(listener_);
}

absl::Status IslandLinks::Listen(Endpoint endpoint) {
  WEFT_ASSIGN_OR_RETURN(listener_, seams_.net->Listen(&endpoint));
  seams_.net->KeepFromChildren(listener_);
  return absl::OkStatus();
}

void IslandLinks::Begin(const IslandMembership& membership, const std::string& members) {
  for (Held& held : links_) {
    if (!held.link->ready())
      held.link->Fail(MakeError(WEFT_ABORTED, "of an old epoch"));
    else
      Leave(&held);
  }
  membership_ = &membership;
  members_ = members;
  self_.epoch = membership.epoch();
  sought_ = -1;
  neighbours_ = membership.NeighboursOf(self_.island);
  wanted_.clear();
  // At first there are none: nothing was to be heard yet.
  const int64_t now_ns = seams_.clock->NowNs();
  for (const int island : neighbours_)
    wanted_[island] = {.next_ns = now_ns, .there_ns = now_ns, .heard_ns = now_ns};
}

void IslandLinks::Seek(int island) {
  if (island == sought_) return;
  if (sought_ >= 0 && !IsNeighbour(sought_)) wanted_.erase(sought_);
  sought_ = island;
  if (island < 0 || IsNeighbour(island)) return;
  const int64_t now_ns = seams_.clock->NowNs();
  wanted_[island] = {.next_ns = now_ns, .there_ns = now_ns, .heard_ns = now_ns};
}

bool IslandLinks::IsNeighbour(int island) const {
  return std::binary_search(neighbours_.begin(), neighbours_.end(), island);
}

IslandLinkSettings IslandLinks::Settings() const {
  return {.secret = secret_,
          .self = self_,
          .attempt_ns = times_.attempt_ns,
          .beat_ns = times_.beat_ns,
          .silence_ns = times_.silence_ns,
          .unanswered_ns = times_.unanswered_ns};
}

bool IslandLinks::OfThisEpoch(const Held& held) const {
  return held.greeted && held.link->epoch() == self_.epoch &&
         held.link->peer().epoch == self_.epoch;
}

// It may carry what there is to say.
bool IslandLinks::Current(const Held& held) const {
  return OfThisEpoch(held) && !held.leaving && held.link->ready();
}

IslandLink* IslandLinks::ReadyLink(int island) const {
  for (const Held& held : links_) {
    if (held.island == island && Current(held)) return held.link.get();
  }
  return nullptr;
}

// Nothing was heard of its processes for a while, but its machine answers: on the connection, or on one that is made again and again.
bool IslandLinks::IsStalled(int island, const Wanted& wanted) const {
  const int64_t now_ns = seams_.clock->NowNs();
  if (const IslandLink* const link = ReadyLink(island)) {
    return now_ns >= link->heard_ns() + times_.stalled_ns &&
           link->MachineAnswers(link->heard_ns(), times_.stalled_ns);
  }
  return now_ns >= wanted.heard_ns + times_.stalled_ns &&
         now_ns < wanted.taken_ns + 2 * times_.stalled_ns;
}

int64_t IslandLinks::LostNs(const Wanted& wanted) const {
  return std::max(wanted.heard_ns, wanted.answered_ns) + times_.lost_ns;
}

// Only of an island that is silent: to ask is a system call.
void IslandLinks::NoteAnswers(int island, Wanted* wanted) const {
  const int64_t now_ns = seams_.clock->NowNs();
  if (now_ns < wanted->heard_ns + times_.stalled_ns) return;
  for (const Held& held : links_) {
    if (held.island != island) continue;
    wanted->answered_ns = std::max(wanted->answered_ns, held.link->answered_ns());
    if (!held.greeted && held.link->MachineAnswers(wanted->heard_ns, times_.stalled_ns))
      wanted->taken_ns = now_ns;
  }
}

void IslandLinks::AppendPollItems(std::vector<PollItem>* items) const {
  if (listener_ >= 0 && seams_.clock->NowNs() >= accept_again_ns_) {
    items->push_back({.handle = listener_, .want_read = true});
  }
  for (const Held& held : links_) {
    if (!held.link->failed()) items->push_back(held.link->Item());
  }
}

int64_t IslandLinks::NextWakeNs() const {
  int64_t wake_ns = std::numeric_limits<int64_t>::max();
  for (const Held& held : links_) {
    wake_ns = std::min(wake_ns, held.link->NextWakeNs());
    if (held.leaving) wake_ns = std::min(wake_ns, held.leave_ns);
  }
  const int64_t now_ns = seams_.clock->NowNs();
  if (accept_again_ns_ > now_ns) wake_ns = std::min(wake_ns, accept_again_ns_);
  for (const auto& [island, wanted] : wanted_) {
    if (Has(island)) continue;
    if (!Dialling(island)) wake_ns = std::min(wake_ns, wanted.next_ns);
    if (!IsNeighbour(island)) continue;
    const int64_t lost_ns = LostNs(wanted);
    if (lost_ns > now_ns) wake_ns = std::min(wake_ns, lost_ns);
    // Its machine may be cut off in the meantime.
    if (IsStalled(island, wanted)) wake_ns = std::min(wake_ns, now_ns + times_.stalled_ns);
  }
  return wake_ns;
}

void IslandLinks::Step(const IslandNumberSet& ended) {
  std::vector<PollItem> items;
  AppendPollItems(&items);
  const absl::Status polled = seams_.net->Poll(items, std::numeric_limits<int64_t>::min());
  if (!polled.ok()) {
    LogWarn("agent: ", FromAbsl(polled.message()));
    return;
  }
  size_t next = 0;
  const bool accepts = next < items.size() && items[0].handle == listener_ && listener_ >= 0;
  if (accepts) ++next;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].link->failed()) continue;
    const PollItem& item = items[next++];
    links_[i].link->Advance(item.readable, item.writable);
  }
  if (accepts && items[0].readable) Accept();
  for (Held& held : links_) {
    if (held.link->ready() && !held.greeted) Welcome(&held);
  }
  const int64_t now_ns = seams_.clock->NowNs();
  for (Held& held : links_) {
    if (!held.leaving) continue;
    if (held.link->flushed()) held.link->FinishSending();
    if (now_ns >= held.leave_ns) held.link->Fail(MakeError(WEFT_ABORTED, "not needed any more"));
  }
  Sweep();
  DialWanted(ended);
}

void IslandLinks::Accept() {
  for (int i = 0; i < kLinkAcceptsPerStep; ++i) {
    const absl::StatusOr<int> handle = seams_.net->Accept(listener_);
    if (!handle.ok()) {
      accept_again_ns_ = seams_.clock->NowNs() + kLinkAcceptAgainNs;
      return;
    }
    if (*handle < 0) return;
    // The oldest stranger gives way.
    Held* oldest = nullptr;
    int strangers = 0;
    for (Held& held : links_) {
      if (held.link->dialed() || held.greeted || held.link->failed()) continue;
      if (oldest == nullptr) oldest = &held;
      ++strangers;
    }
    if (strangers >= kStrangersMax) {
      oldest->link->Fail(MakeError(WEFT_AUTH_FAILED, "gave way to a newer stranger"));
    }
    links_.push_back({.link = IslandLink::Accept(seams_, Settings(), *handle)});
  }
}

// The other side has said who it is.
void IslandLinks::Welcome(Held* held) {
  const IslandWho& peer = held->link->peer();
  held->greeted = true;
  const bool known = map_.Find(peer.island, peer.pid, peer.start_time) >= 0;
  const bool expected = !held->link->dialed() || held->island == peer.island;
  if (!known || !expected || peer.island == self_.island) {
    const auto meant = wanted_.find(held->island);
    if (meant != wanted_.end()) {
      ++meant->second.candidate;
      meant->second.next_ns = AfterPause(&meant->second);
    }
    held->link->Fail(MakeError(WEFT_AUTH_FAILED, "it is no process of this job"));
    return;
  }
  held->island = peer.island;
  const auto wanted = wanted_.find(peer.island);
  if (wanted != wanted_.end()) wanted->second.next_ns = AfterPause(&wanted->second);
  if (peer.epoch < self_.epoch) {
    held->link->Send(IslandFrame::kMembership, members_);
    held->link->Flush();
    Leave(held);
    return;
  }
  // Who is ahead says so, and then ends the connection.
  if (peer.epoch > self_.epoch) return;
  if (!membership_->islands().Has(peer.island)) {
    Leave(held);
    return;
  }
  if (!IsNeighbour(peer.island) && Extra().size() > kExtrasMax) {
    Leave(held);
    return;
  }
  if (wanted != wanted_.end()) wanted->second.pause_ns = 0;
  new_.push_back(peer.island);
  KeepOne(peer.island);
}

void IslandLinks::Leave(Held* held) {
  if (held->leaving) return;
  held->leaving = true;
  held->leave_ns = seams_.clock->NowNs() + kLinkLeaveNs;
}

// Of several connections with an island, one.
void IslandLinks::KeepOne(int island) {
  std::vector<Held*> all;
  for (Held& held : links_) {
    if (held.island == island && Current(held)) all.push_back(&held);
  }
  uint64_t newest = 0;
  for (const Held* held : all)
    newest = std::max(newest, held->link->peer().term);
  const bool ours =
      IsNeighbour(island) ? membership_->DialsFirst(self_.island, island) : self_.island < island;
  bool kept = false;
  // The last one is the newest of its kind.
  for (auto held = all.rbegin(); held != all.rend(); ++held) {
    const IslandLink& link = *(*held)->link;
    if (link.peer().term < newest) {
      Leave(*held);  // of a speaker before
    } else if (all.size() > 1 && link.dialed() && (kept || !ours)) {
      // One that was accepted is the other side's to end.
      const bool others = std::any_of(all.begin(), all.end(), [&](const Held* other) {
        return other != *held && !other->leaving && other->link->peer().term == newest;
      });
      if (others) Leave(*held);
      kept = kept || !others;
    } else if (link.dialed()) {
      kept = true;
    }
  }
}

// When to dial next; each time a longer pause, and not together with others that failed together.
int64_t IslandLinks::AfterPause(Wanted* wanted) {
  wanted->pause_ns =
      std::min(std::max(kFirstDialPauseNs, 2 * wanted->pause_ns), times_.longest_pause_ns);
  uint32_t noise = 0;
  if (!seams_.random->Fill(&noise, sizeof(noise)).ok()) noise = 0;
  return seams_.clock->NowNs() + wanted->pause_ns / 2 + noise % wanted->pause_ns;
}

void IslandLinks::Sweep() {
  const int64_t now_ns = seams_.clock->NowNs();
  for (auto& [island, wanted] : wanted_) {
    NoteAnswers(island, &wanted);
    const IslandLink* const link = ReadyLink(island);
    if (link == nullptr) continue;
    wanted.met = true;
    wanted.there_ns = now_ns;
    wanted.heard_ns = link->heard_ns();
  }
  for (Held& held : links_) {
    if (!held.link->failed()) continue;
    if (held.link->dialed() && !held.greeted) {
      // Another process may speak for that island.
      const auto wanted = wanted_.find(held.island);
      if (wanted != wanted_.end()) {
        ++wanted->second.candidate;
        wanted->second.next_ns = AfterPause(&wanted->second);
      }
    } else if (held.greeted && held.island >= 0) {
      // What was sent on it may not have been taken; if there is another one, all is said again there.
      if (Has(held.island))
        new_.push_back(held.island);
      else if (!held.leaving)
        ended_.push_back(held.link->peer());
    }
  }
  std::erase_if(links_, [](const Held& held) { return held.link->failed(); });
}

bool IslandLinks::Dialling(int island) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Held& held) {
    return held.link->dialed() && !held.greeted && held.island == island && !held.link->failed();
  });
}

void IslandLinks::DialWanted(const IslandNumberSet& ended) {
  const int64_t now_ns = seams_.clock->NowNs();
  for (auto& [island, wanted] : wanted_) {
    if (now_ns < wanted.next_ns || Has(island) || Dialling(island)) continue;
    const bool ours = !IsNeighbour(island) || membership_->DialsFirst(self_.island, island);
    if (!ours && now_ns < wanted.there_ns + times_.second_ns) {
      wanted.next_ns = wanted.there_ns + times_.second_ns;
      continue;
    }
    Dial(island, &wanted, ended);
  }
}

void IslandLinks::Dial(int island, Wanted* wanted, const IslandNumberSet& ended) {
  std::vector<const IslandProcess*> candidates;
  for (const IslandProcess& process : map_.island(island).processes) {
    if (!ended.Has(process.world_rank)) candidates.push_back(&process);
  }
  if (candidates.empty()) {
    wanted->next_ns = seams_.clock->NowNs() + times_.longest_pause_ns;
    return;
  }
  const IslandProcess& process = *candidates[wanted->candidate % candidates.size()];
  IslandLinkSettings settings = Settings();
  settings.greet_ns = (seams_.clock->NowNs() - wanted->heard_ns) / 2;
  links_.push_back(
      {.link = IslandLink::Dial(seams_, std::move(settings), process.endpoint), .island = island});
  // One that failed at once is swept in the next step, which must come.
  if (links_.back().link->failed()) wanted->next_ns = seams_.clock->NowNs();
}

// --- Frames --------------------------------------------------------------------------------------

std::optional<IslandLinks::Incoming> IslandLinks::Next() {
  for (Held& held : links_) {
    if (!held.greeted) continue;
    while (std::optional<Frame> frame = held.link->Next()) {
      const bool membership = frame->type == static_cast<FrameType>(IslandFrame::kMembership);
      if (!membership && !OfThisEpoch(held)) continue;
      return Incoming{held.island, *std::move(frame)};
    }
  }
  return std::nullopt;
}

void IslandLinks::Reject(int island, const absl::Status& why) {
  LogWarn("agent: island ", island, ": ", FromAbsl(why.message()));
  for (Held& held : links_) {
    if (held.island == island && held.greeted) held.link->Fail(why);
  }
}

std::vector<int> IslandLinks::TakeNew() {
  return std::exchange(new_, {});
}

std::vector<IslandWho> IslandLinks::TakeEnded() {
  return std::exchange(ended_, {});
}

void IslandLinks::Send(int island, IslandFrame type, std::string_view body) {
  IslandLink* const link = ReadyLink(island);
  if (link == nullptr) return;
  link->Send(type, body);
  ++frames_sent_;
}

void IslandLinks::Broadcast(IslandFrame type, std::string_view body, int except) {
  IslandNumberSet reached(map_.island_count());
  for (const Held& held : links_) {
    if (!Current(held) || held.island == except || !reached.Add(held.island)) continue;
    held.link->Send(type, body);
    ++frames_sent_;
  }
}

void IslandLinks::Flush() {
  for (const Held& held : links_) {
    if (held.greeted) held.link->Flush();
  }
}

std::vector<int32_t> IslandLinks::Lost() const {
  const int64_t now_ns = seams_.clock->NowNs();
  std::vector<int32_t> lost;
  for (const int island : neighbours_) {
    const Wanted& wanted = wanted_.at(island);
    if (!Has(island) && now_ns >= LostNs(wanted) && !IsStalled(island, wanted)) {
      lost.push_back(island);
    }
  }
  return lost;
}

std::vector<int32_t> IslandLinks::Stalled() const {
  std::vector<int32_t> stalled;
  for (const int island : neighbours_) {
    if (IsStalled(island, wanted_.at(island))) stalled.push_back(island);
  }
  return stalled;
}

std::vector<int32_t> IslandLinks::Extra() const {
  IslandNumberSet extra(map_.island_count());
  for (const Held& held : links_) {
    if (Current(held) && !IsNeighbour(held.island)) extra.Add(held.island);
  }
  const std::vector<int> numbers = extra.Numbers();
  return {numbers.begin(), numbers.end()};
}

size_t IslandLinks::buffered_bytes() const {
  size_t bytes = 0;
  for (const Held& held : links_)
    bytes += held.link->buffered_bytes();
  return bytes;
}

}  // namespace weft
