// One process of an island, as others see the island while this process speaks for it: a state machine that one thread steps.
//
//   IslandAgent agent(seams, settings, map, &memory, island, process);
//   WEFT_RETURN_IF_ERROR(agent.Speak());               // the local side: this is the lowest living rank that is not stopped
//   agent.LocalDeath(rank, exit); agent.LocalRecord(record); agent.StartReconfigure(ranks, deadline_ns);
//   while (...) {
//     items.clear();
//     agent.AppendPollItems(&items);
//     net.Poll(items, agent.NextWakeNs());
//     agent.Step();
//     while (std::optional<IslandEvent> event = agent.NextEvent()) ...
//   }
//
// What it knows is facts: deaths that islands have seen among their own processes, connections that are there or not. Silence is
// never death: an island that cannot be reached, directly or over others, for `limit_ns` is unreachable, on both sides. Time in
// which this process itself did not run is not counted. An island that says nothing while its machine answers is stopped, and can be reached
// (IslandReach::Stalled).
//
// The local side says who speaks, and says again to a new speaker what it has said to the one before: deaths, records that
// are not settled, ranks that wait. Events of the same kind may then come twice; they say the same.
//
// Thread-safety: owned by one thread; nothing waits. Owns its sockets. Memory: see docs/design/011-islands.md.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/agent/awake_clock.h"
#include "comm/agent/island_agreement.h"
#include "comm/agent/island_deaths.h"
#include "comm/agent/island_links.h"
#include "comm/agent/island_map.h"
#include "comm/agent/island_memory.h"
#include "comm/agent/island_question.h"
#include "comm/agent/island_reach.h"
#include "comm/agent/island_relay.h"

namespace weft {

struct IslandAgentSettings {
  std::string secret;  // of the job
  int64_t limit_ns =
      3'000'000'000;  // until an island that does not answer is unreachable; 0.5 s to 1 h
  int64_t gather_ns = 20'000'000;  // how long causes of one failure are gathered
};

// Of a limit that somebody asks for, what is taken.
int64_t BoundedIslandLimit(int64_t limit_ns);

struct IslandEvent {
  enum class Kind {
    kRankDead,       // rank, exit
    kRankLeft,       // rank
    kUnreachable,    // island
    kGroupFailed,    // verdict: known here now, not settled yet; epoch
    kRecordSettled,  // verdict, epoch
    kAgreed,  // epoch, ranks: the membership now. Groups of the epoch before are gone, settled or not
    kLeftBehind,  // epoch, ranks: this island has no rank in it
    kNoQuorum,    // too few can be reached to agree
    kLate,        // ranks: the deadline has passed, these had not come
  };
  Kind kind = Kind::kRankDead;
  int rank = -1;
  int island = -1;
  ExitInfo exit;
  GroupVerdict verdict;
  uint32_t epoch = 0;
  IslandNumberSet ranks;
};

class IslandAgent {
 public:
  // `map` and `memory` outlive it. `process`: the place in the island's list.
  IslandAgent(const Seams& seams, IslandAgentSettings settings, const IslandMap& map,
              IslandMemory* memory, int island, int process);
  IslandAgent(const IslandAgent&) = delete;
  IslandAgent& operator=(const IslandAgent&) = delete;
  ~IslandAgent();

  // Speaks for the island from here on; whoever did before cannot any more. An error: it could not listen.
  absl::Status Speak();
  // Another process speaks. Also what Step() does when it finds that.
  void Hush();

  bool speaking() const { return voice_ != nullptr; }

  // The rest is for a speaker; a process that does not speak ignores it.

  // A process of this island has ended.
  void LocalDeath(int world_rank, const ExitInfo& exit);
  // It takes no part in the job any more, and nobody is to wait for it; that is no loss.
  void LocalLeave(int world_rank);
  // A group has ended, by what a rank of this island has found; origin and sequence are set here. The status is
  // IslandRelay::Raise()'s.
  absl::Status LocalRecord(FailureRecord record);
  // These ranks of this island wait for a new membership; ends in kAgreed, kLeftBehind, kNoQuorum or kLate.
  void StartReconfigure(const IslandNumberSet& ranks, int64_t deadline_ns);

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  void Step();

  std::optional<IslandEvent> NextEvent();

  // nullptr: not speaking.
  const IslandReach* reach() const { return voice_ == nullptr ? nullptr : voice_->reach.get(); }

  const IslandRelay* relay() const { return voice_ == nullptr ? nullptr : voice_->relay.get(); }

  size_t connection_count() const { return voice_ == nullptr ? 0 : voice_->links.count(); }

  size_t buffered_bytes() const { return voice_ == nullptr ? 0 : voice_->links.buffered_bytes(); }

  // Questions about the processes at the other ends of lost connections that were answered.
  uint64_t answers() const { return answers_; }

  // All islands that this one is to be connected with, and that are there, have said that they know which of its ranks have ended.
  bool AllTold() const;
  // There has not been a connection with a neighbour yet that may be there, so that it can have heard nothing.
  bool AwaitsNeighbour() const;

  // In all, without beats.
  uint64_t frames_sent() const {
    return frames_before_ + (voice_ ? voice_->links.frames_sent() : 0);
  }

 private:
  // What a speaker has; all but the links is of one epoch.
  struct Voice {
    Voice(const Seams& seams, const IslandAgentSettings& settings, const IslandTimes& times,
          const IslandMap& map, const IslandWho& who);

    IslandLinks links;
    IslandDeaths deaths;
    std::unique_ptr<IslandMembership> membership;
    std::unique_ptr<IslandReach> reach;
    std::unique_ptr<IslandRelay> relay;
    std::unique_ptr<IslandAgreement> agreement;
    std::unique_ptr<IslandQuestions> questions;
    std::vector<RankDeath> untold_deaths;
    // Ranks of this island, by the islands that have said themselves that these have ended.
    std::map<int, IslandNumberSet> known_by;
    std::vector<ReachReport> untold_reports;
    int64_t seek_ns = 0;
    uint64_t next_sequence = 0;
  };

  bool IsMember() const;
  IslandNumberSet Away() const;
  int64_t NextWakeByClock() const;
  void StepAwake();
  void BeginEpoch();
  void Adopt(const IslandMembers& members, int from);
  bool Handle(int from, const Frame& frame);
  absl::Status HandleKnowledge(int from, const Frame& frame);
  absl::Status HandleAgreement(int from, const Frame& frame);
  absl::Status HandleQuestion(const Frame& frame);
  void Answer(const IslandAsk& ask);
  void Sync(int island);
  void AddLocal(RankDeath death);
  void MergeDeath(const RankDeath& death);
  void EmitDeath(const RankDeath& death);
  bool TellNewDeaths();
  bool RememberEnded(const std::vector<RankDeath>& news);
  void TellDeaths(int to, const std::vector<RankDeath>& deaths);
  void TellReports(int to, const std::vector<ReachReport>& reports);
  bool WriteBeforeTelling(GroupVerdict verdict);
  bool TellVerdict(int to, const GroupVerdict& verdict);
  void StepReach(int64_t now_ns);
  void StepQuestions(int64_t now_ns);
  void StepRelay(int64_t now_ns);
  void StepAgreement(int64_t now_ns);
  void SeekMissing(int64_t now_ns);
  void Emit(IslandEvent event);

  const IslandAgentSettings settings_;
  const IslandTimes times_;
  // All times in here are by it, but those that callers name.
  AwakeClock clock_;
  const Seams seams_;
  const IslandMap& map_;
  IslandMemory* const memory_;
  const int island_;
  const int process_;
  uint64_t term_ = 0;
  uint32_t told_epoch_;
  std::unique_ptr<Voice> voice_;
  std::deque<IslandEvent> events_;
  uint64_t frames_before_ = 0;
  uint64_t answers_ = 0;
};

}  // namespace weft
