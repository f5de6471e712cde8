// A step takes what has come, then looks at each question in turn: who is connected, what is open, what is told, what is agreed. What
// one of them finds the next one sees in the same step. A decision ends the epoch, and with it everything that was of it.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "comm/agent/island_agent.h"

namespace weft {

void IslandAgent::AppendPollItems(std::vector<PollItem>* items) const {
  if (speaking()) voice_->links.AppendPollItems(items);
}

int64_t IslandAgent::NextWakeNs() const {
  return clock_.ToClock(NextWakeByClock());
}

int64_t IslandAgent::NextWakeByClock() const {
  if (!speaking()) return std::numeric_limits<int64_t>::max();
  const Voice& voice = *voice_;
  if (!IsMember()) return voice.links.NextWakeNs();
  int64_t wake_ns = std::min(voice.links.NextWakeNs(), voice.reach->NextWakeNs());
  wake_ns = std::min(wake_ns, voice.relay->NextWakeNs());
  wake_ns = std::min(wake_ns, voice.agreement->NextWakeNs());
  wake_ns = std::min(wake_ns, voice.questions->NextWakeNs());
  if (voice.reach->InDoubt() || !voice.reach->unreachable().Empty()) {
    wake_ns = std::min(wake_ns, voice.seek_ns);
  }
  return wake_ns;
}

void IslandAgent::Step() {
  clock_.BeginStep();
  StepAwake();
  clock_.EndStep(NextWakeByClock());
}

void IslandAgent::StepAwake() {
  if (speaking() && !memory_->Holds(term_)) Hush();
  if (!speaking()) return;
  voice_->links.Step(voice_->deaths.ranks());
  const int64_t now_ns = seams_.clock->NowNs();
  for (const int island : voice_->links.TakeNew()) {
    Sync(island);
    if (!speaking()) return;  // another process of the island speaks by now
    voice_->questions->Hurry(now_ns);
  }
  for (const IslandWho& who : voice_->links.TakeEnded()) {
    if (!voice_->links.Has(who.island) && voice_->membership->islands().Has(who.island)) {
      voice_->questions->Open(who.island, who.pid, who.start_time, now_ns);
    }
  }
  while (std::optional<IslandLinks::Incoming> incoming = voice_->links.Next()) {
    if (!Handle(incoming->island, incoming->frame)) break;
  }
  if (IsMember()) StepReach(now_ns);
  if (IsMember()) StepQuestions(now_ns);
  if (IsMember()) StepRelay(now_ns);
  if (IsMember()) StepAgreement(now_ns);
  if (speaking()) voice_->links.Flush();
}

void IslandAgent::StepReach(int64_t now_ns) {
  Voice& voice = *voice_;
  if (voice.reach->SetOwn(voice.links.Lost(), voice.links.Extra(), voice.links.Stalled())) {
    voice.untold_reports.push_back(voice.reach->own());
  }
  TellReports(AgreementMessage::kAll, std::exchange(voice.untold_reports, {}));
  if (!TellNewDeaths()) return;
  const IslandNumberSet ended = voice.deaths.EndedIslands(map_, *voice.membership);
  for (const int island : voice.reach->Judge(now_ns, ended)) {
    Emit({.kind = IslandEvent::Kind::kUnreachable, .island = island});
  }
  SeekMissing(now_ns);
}

// A connection that the topology has not, where islands are lost in such a number that it falls apart.
void IslandAgent::SeekMissing(int64_t now_ns) {
  Voice& voice = *voice_;
  const bool due = now_ns >= voice.seek_ns;
  // One that has just come to be missing is looked for at once.
  if (!due && voice.links.sought() >= 0) return;
  const IslandNumberSet missing = voice.membership->islands()
                                      .Minus(voice.reach->connected())
                                      .Minus(voice.deaths.EndedIslands(map_, *voice.membership));
  std::vector<int> strange;
  for (const int island : missing.Numbers()) {
    if (!voice.membership->AreNeighbours(island_, island)) strange.push_back(island);
  }
  if (due || !strange.empty()) voice.seek_ns = now_ns + times_.attempt_ns;
  if (strange.empty()) {
    voice.links.Seek(-1);
    return;
  }
  // Each island looks for another one, and in time for all.
  const auto turn = static_cast<size_t>(now_ns / times_.attempt_ns + island_);
  voice.links.Seek(strange[turn % strange.size()]);
}

void IslandAgent::StepQuestions(int64_t now_ns) {
  Voice& voice = *voice_;
  if (voice.questions->empty()) return;
  voice.questions->Drop(voice.reach->unreachable());
  voice.questions->Drop(voice.deaths.EndedIslands(map_, *voice.membership));
  voice.questions->ForDue(now_ns, [&](IslandAsk ask) {
    if (voice.links.Has(ask.target)) {
      voice.links.Send(ask.target, IslandFrame::kAsk, EncodeAsk(ask));
      return;
    }
    for (const int via : voice.membership->NeighboursOf(ask.target)) {
      ask.via = via;
      if (voice.links.Has(via)) voice.links.Send(via, IslandFrame::kAsk, EncodeAsk(ask));
    }
  });
}

void IslandAgent::StepRelay(int64_t now_ns) {
  Voice& voice = *voice_;
  voice.relay->Exclude(Away());
  const std::vector<GroupVerdict> news = voice.relay->Step(now_ns);
  std::vector<GroupVerdict> settled = voice.relay->TakeSettled();
  for (const GroupVerdict& verdict : settled) {
    if (!WriteBeforeTelling(verdict)) return;
  }
  for (const GroupVerdict& verdict : news) {
    if (!TellVerdict(AgreementMessage::kAll, verdict)) return;
  }
  // Whoever reads it may end its process at once, and with it this one: the other islands have been
  // told by then.
  if (!settled.empty()) voice.links.Flush();
  for (GroupVerdict& verdict : settled) {
    if (!memory_->WriteVerdict(term_, verdict)) {
      Hush();
      return;
    }
    Emit({.kind = IslandEvent::Kind::kRecordSettled,
          .verdict = std::move(verdict),
          .epoch = voice.membership->epoch()});
  }
}

void IslandAgent::StepAgreement(int64_t now_ns) {
  Voice& voice = *voice_;
  IslandAgreement& agreement = *voice.agreement;
  agreement.See(voice.reach->connected(), voice.reach->InDoubt());
  agreement.Step(now_ns);
  for (const AgreementMessage& message : agreement.TakeMessages()) {
    if (message.to == AgreementMessage::kAll) {
      voice.links.Broadcast(message.type, message.body, message.except);
    } else {
      voice.links.Send(message.to, message.type, message.body);
    }
  }
  const AgreementEnd end = agreement.TakeEnd();
  if (end == AgreementEnd::kNoQuorum) Emit({.kind = IslandEvent::Kind::kNoQuorum});
  if (end == AgreementEnd::kTimeout) {
    Emit({.kind = IslandEvent::Kind::kLate, .ranks = agreement.Late()});
  }
  if (agreement.deposed()) {
    Hush();
  } else if (agreement.decided()) {
    Adopt({voice.membership->epoch() + 1, *agreement.decided()}, -1);
  }
}

}  // namespace weft
