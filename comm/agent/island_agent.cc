// Who speaks, of which epoch, what the island says to its speaker, and what the speaker tells other islands.
#include "comm/agent/island_agent.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int64_t kLimitMinNs = 500'000'000;
constexpr int64_t kLimitMaxNs = 3'600'000'000'000;
// However long the limit is: somebody who is there again is found soon.
constexpr int64_t kTryMaxNs = 2'000'000'000;
constexpr int64_t kBeatMaxNs = 500'000'000;
constexpr int64_t kStalledMaxNs = 1'500'000'000;

IslandAgentSettings Bounded(IslandAgentSettings settings) {
  settings.limit_ns = BoundedIslandLimit(settings.limit_ns);
  return settings;
}

// Shares of the limit. A neighbour falls silent, is looked for, is lost; and is unreachable when the limit is over.
IslandTimes TimesOf(int64_t limit_ns) {
  return {.attempt_ns = std::min(limit_ns / 6, kTryMaxNs),
          .beat_ns = std::min(limit_ns / 8, kBeatMaxNs),
          .silence_ns = limit_ns / 3,
          .stalled_ns = std::min(limit_ns / 3, kStalledMaxNs),
          .longest_pause_ns = std::min(limit_ns / 6, kTryMaxNs),
          .lost_ns = limit_ns * 2 / 3,
          .second_ns = std::min(limit_ns / 15, kTryMaxNs),
          .unanswered_ns = limit_ns};
}

Seams WithClock(Seams seams, Clock* clock) {
  seams.clock = clock;
  return seams;
}

}  // namespace

int64_t BoundedIslandLimit(int64_t limit_ns) {
  return std::clamp(limit_ns, kLimitMinNs, kLimitMaxNs);
}

IslandAgent::Voice::Voice(const Seams& seams, const IslandAgentSettings& settings,
                          const IslandTimes& times, const IslandMap& map, const IslandWho& who)
    : links(seams, settings.secret, times, map, who), deaths(map.rank_count()) {}

IslandAgent::IslandAgent(const Seams& seams, IslandAgentSettings settings, const IslandMap& map,
                         IslandMemory* memory, int island, int process)
    : settings_(Bounded(std::move(settings))),
      times_(TimesOf(settings_.limit_ns)),
      clock_(*seams.clock, settings_.limit_ns / 15),
      seams_(WithClock(seams, &clock_)),
      map_(map),
      memory_(memory),
      island_(island),
      process_(process),
      told_epoch_(memory->Read().epoch) {}

IslandAgent::~IslandAgent() = default;

absl::Status IslandAgent::Speak() {
  Hush();
  const IslandProcess& process = map_.island(island_).processes[static_cast<size_t>(process_)];
  // Not what the map says: a process that has taken the place of one that ended is another one.
  const ProcessIdentity self = seams_.proc->Self();
  voice_ = std::make_unique<Voice>(
      seams_, settings_, times_, map_,
      IslandWho{.island = island_, .pid = self.pid, .start_time = self.start_time});
  if (absl::Status listening = voice_->links.Listen(process.endpoint); !listening.ok()) {
    voice_.reset();
    return listening;
  }
  // One that cannot listen does not depose the one that can.
  term_ = memory_->Take();
  voice_->links.SetTerm(term_);
  BeginEpoch();
  // The speaker that wrote them may have ended before anybody here was told.
  for (const RankDeath& death : voice_->deaths.All())
    EmitDeath(death);
  return absl::OkStatus();
}

void IslandAgent::Hush() {
  frames_before_ = frames_sent();
  if (voice_ != nullptr) voice_->links.StopListening();
  voice_.reset();
}

void IslandAgent::Emit(IslandEvent event) {
  events_.push_back(std::move(event));
}

std::optional<IslandEvent> IslandAgent::NextEvent() {
  if (events_.empty()) return std::nullopt;
  IslandEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// --- Epochs --------------------------------------------------------------------------------------

// What the island's memory says, from nothing.
void IslandAgent::BeginEpoch() {
  const IslandState state = memory_->Read();
  Voice& voice = *voice_;
  voice.agreement.reset();
  voice.relay.reset();
  voice.reach.reset();
  auto membership = std::make_unique<IslandMembership>(map_, state.epoch, state.members);
  voice.links.Begin(*membership, EncodeMembers({state.epoch, state.members}));
  voice.membership = std::move(membership);
  voice.deaths.BeginEpoch(state.members);
  for (const RankDeath& death : state.deaths)
    voice.deaths.Merge(death);
  for (const EndedIsland& ended : state.elsewhere)
    voice.deaths.Restore(map_, state.members, ended);
  voice.known_by.clear();
  const int islands = map_.island_count();
  // Reports of this speaker are newer than those of speakers before.
  voice.reach = std::make_unique<IslandReach>(*voice.membership, islands, island_,
                                              settings_.limit_ns / 3, (term_ - 1) << 32);
  voice.untold_reports.clear();
  if (term_ > 1) voice.untold_reports.push_back(voice.reach->own());
  voice.untold_deaths = state.deaths;
  voice.relay = std::make_unique<IslandRelay>(voice.membership->islands(), island_,
                                              settings_.gather_ns, settings_.limit_ns);
  for (const GroupVerdict& verdict : memory_->ReadVerdicts())
    voice.relay->Restore(verdict, seams_.clock->NowNs());
  voice.agreement =
      std::make_unique<IslandAgreement>(map_, *voice.membership, voice.deaths, memory_, term_,
                                        island_, std::min(settings_.limit_ns / 3, kTryMaxNs));
  voice.questions =
      std::make_unique<IslandQuestions>(island_, std::min(settings_.limit_ns / 12, kTryMaxNs));
  voice.next_sequence = term_ << 32;
  voice.seek_ns = seams_.clock->NowNs();
  if (state.epoch == told_epoch_) return;
  told_epoch_ = state.epoch;
  const bool member = voice.membership->islands().Has(island_);
  Emit({.kind = member ? IslandEvent::Kind::kAgreed : IslandEvent::Kind::kLeftBehind,
        .epoch = state.epoch,
        .ranks = state.members});
}

// The membership is this one now. `from`: who has said so; -1: it was agreed here.
void IslandAgent::Adopt(const IslandMembers& members, int from) {
  IslandState state = memory_->Read();
  if (members.epoch <= state.epoch || members.ranks.Empty()) return;
  state.epoch = members.epoch;
  state.members = members.ranks;
  state.promised = 0;
  state.accepted = 0;
  state.accepted_ranks = IslandNumberSet(map_.rank_count());
  std::erase_if(state.deaths,
                [&](const RankDeath& death) { return !members.ranks.Has(death.world_rank); });
  for (RankDeath& death : state.deaths) {
    death.promised = 0;
    death.accepted = false;
  }
  for (EndedIsland& ended : state.elsewhere) {
    ended.promised = 0;
    ended.accepted = false;
  }
  if (!memory_->Write(term_, state)) {
    Hush();
    return;
  }
  voice_->links.Broadcast(IslandFrame::kMembership, EncodeMembers(members), from);
  voice_->links.Flush();
  BeginEpoch();
}

// It speaks, for an island that has not been left behind.
bool IslandAgent::IsMember() const {
  return speaking() && voice_->membership->islands().Has(island_);
}

// --- From the island -----------------------------------------------------------------------------

void IslandAgent::LocalDeath(int world_rank, const ExitInfo& exit) {
  AddLocal({.world_rank = world_rank, .exit = exit});
}

void IslandAgent::LocalLeave(int world_rank) {
  AddLocal({.world_rank = world_rank, .left = true});
}

void IslandAgent::AddLocal(RankDeath death) {
  if (!speaking() || map_.IslandOf(death.world_rank) != island_) return;
  IslandState state = memory_->Read();
  if (!state.members.Has(death.world_rank) || voice_->deaths.ranks().Has(death.world_rank)) return;
  death.promised = state.promised;
  death.accepted = state.accepted != 0;
  state.deaths.push_back(death);
  // Known to the island before it is told: (A2) and (A3) of the agreement.
  if (!memory_->Write(term_, state)) {
    Hush();
    return;
  }
  MergeDeath(death);
}

absl::Status IslandAgent::LocalRecord(FailureRecord record) {
  if (!speaking()) return MakeError(WEFT_BAD_STATE, "another process speaks for this island");
  if (!IsMember()) return MakeError(WEFT_BAD_STATE, "this island was left behind");
  record.origin = island_;
  record.sequence = voice_->next_sequence++;
  record.sentence.resize(std::min(record.sentence.size(), kFailureSentenceMax));
  const bool known = voice_->relay->Of(record.group_id) != nullptr;
  absl::Status raised = voice_->relay->Raise(record, seams_.clock->NowNs());
  const GroupVerdict* const verdict = voice_->relay->Of(record.group_id);
  if (!known && verdict != nullptr) {
    Emit({.kind = IslandEvent::Kind::kGroupFailed,
          .verdict = *verdict,
          .epoch = voice_->membership->epoch()});
  }
  return raised;
}

void IslandAgent::StartReconfigure(const IslandNumberSet& ranks, int64_t deadline_ns) {
  if (!speaking()) return;
  if (!IsMember()) {
    Emit({.kind = IslandEvent::Kind::kLeftBehind,
          .epoch = voice_->membership->epoch(),
          .ranks = voice_->membership->ranks()});
    return;
  }
  voice_->agreement->Start(ranks, clock_.FromClock(deadline_ns));
  voice_->links.Broadcast(IslandFrame::kReady, EncodeRanks(voice_->agreement->ready()));
}

// Of a member: islands that have ended, or cannot be reached.
IslandNumberSet IslandAgent::Away() const {
  IslandNumberSet away = voice_->deaths.EndedIslands(map_, *voice_->membership);
  away.AddAll(voice_->reach->unreachable());
  return away;
}

bool IslandAgent::AwaitsNeighbour() const {
  if (!IsMember()) return false;
  const IslandNumberSet away = Away();
  const std::vector<int> neighbours = voice_->membership->NeighboursOf(island_);
  return std::any_of(neighbours.begin(), neighbours.end(), [&](int island) {
    return !away.Has(island) && !voice_->links.HasMet(island);
  });
}

bool IslandAgent::AllTold() const {
  if (!IsMember()) return true;
  const IslandMembership& membership = *voice_->membership;
  const IslandNumberSet away = Away();
  IslandNumberSet own(map_.rank_count());
  for (const int rank : map_.RanksOf(island_)) {
    if (voice_->deaths.ranks().Has(rank)) own.Add(rank);
  }
  const auto knows = [&](int island) {
    const auto known = voice_->known_by.find(island);
    return known != voice_->known_by.end() && known->second.Contains(own);
  };
  for (const int island : membership.NeighboursOf(island_)) {
    if (!away.Has(island) && !knows(island)) return false;
  }
  // If no neighbour is left, some other island must tell it on.
  IslandNumberSet others = membership.islands().Minus(away);
  others.Remove(island_);
  const std::vector<int> living = others.Numbers();
  return living.empty() || std::any_of(living.begin(), living.end(), knows);
}

// --- What is told --------------------------------------------------------------------------------

// All that a new connection's other side may have missed.
void IslandAgent::Sync(int island) {
  Voice& voice = *voice_;
  TellDeaths(island, voice.deaths.All());
  TellReports(island, voice.reach->All());
  if (!voice.agreement->ready().Empty()) {
    voice.links.Send(island, IslandFrame::kReady, EncodeRanks(voice.agreement->ready()));
  }
  for (const GroupVerdict& verdict : voice.relay->All()) {
    if (!TellVerdict(island, verdict)) return;
  }
}

void IslandAgent::MergeDeath(const RankDeath& death) {
  if (!voice_->membership->ranks().Has(death.world_rank) || !voice_->deaths.Merge(death)) return;
  voice_->untold_deaths.push_back(death);
  EmitDeath(death);
}

void IslandAgent::EmitDeath(const RankDeath& death) {
  const auto kind = death.left ? IslandEvent::Kind::kRankLeft : IslandEvent::Kind::kRankDead;
  Emit({.kind = kind, .rank = death.world_rank, .exit = death.exit});
}

// Also to those that they came from, who take it for the answer. False if another process speaks now.
bool IslandAgent::TellNewDeaths() {
  const std::vector<RankDeath> news = std::exchange(voice_->untold_deaths, {});
  if (!RememberEnded(news)) {
    Hush();
    return false;
  }
  TellDeaths(AgreementMessage::kAll, news);
  return true;
}

// Known to the island before it is answered: the last process of the island that has ended goes then.
bool IslandAgent::RememberEnded(const std::vector<RankDeath>& news) {
  const IslandNumberSet ended = voice_->deaths.EndedIslands(map_, *voice_->membership);
  IslandNumberSet complete(map_.island_count());
  for (const RankDeath& death : news) {
    const int island = map_.IslandOf(death.world_rank);
    if (island != island_ && ended.Has(island)) complete.Add(island);
  }
  if (complete.Empty()) return true;
  IslandState state = memory_->Read();
  for (const int island : complete.Numbers())
    state.elsewhere.push_back(voice_->deaths.Ended(map_, island));
  return memory_->Write(term_, state);
}

void IslandAgent::TellDeaths(int to, const std::vector<RankDeath>& deaths) {
  for (size_t begin = 0; begin < deaths.size(); begin += kIslandDeathsMax) {
    const size_t end = std::min(deaths.size(), begin + kIslandDeathsMax);
    const std::string body = EncodeDeaths({deaths.begin() + static_cast<ptrdiff_t>(begin),
                                           deaths.begin() + static_cast<ptrdiff_t>(end)});
    if (to == AgreementMessage::kAll)
      voice_->links.Broadcast(IslandFrame::kDeaths, body);
    else
      voice_->links.Send(to, IslandFrame::kDeaths, body);
  }
}

void IslandAgent::TellReports(int to, const std::vector<ReachReport>& reports) {
  for (size_t begin = 0; begin < reports.size(); begin += kIslandReportsMax) {
    const size_t end = std::min(reports.size(), begin + kIslandReportsMax);
    const std::string body = EncodeReach({reports.begin() + static_cast<ptrdiff_t>(begin),
                                          reports.begin() + static_cast<ptrdiff_t>(end)});
    if (to == AgreementMessage::kAll)
      voice_->links.Broadcast(IslandFrame::kReach, body);
    else
      voice_->links.Send(to, IslandFrame::kReach, body);
  }
}

// What this island tells must be known to its next speaker before others count on it, which else
// raises the same cause under another number; that it is settled follows when that was told. False if another process speaks now.
bool IslandAgent::WriteBeforeTelling(GroupVerdict verdict) {
  verdict.settled = false;
  if (memory_->WriteVerdict(term_, verdict)) return true;
  Hush();
  return false;
}

// False if another process speaks now.
bool IslandAgent::TellVerdict(int to, const GroupVerdict& verdict) {
  if (!verdict.settled && !WriteBeforeTelling(verdict)) return false;
  const std::string body = EncodeVerdictOf(verdict);
  if (to == AgreementMessage::kAll)
    voice_->links.Broadcast(IslandFrame::kRecord, body);
  else
    voice_->links.Send(to, IslandFrame::kRecord, body);
  return true;
}

}  // namespace weft
