#include "tests/comm/agent/island_job.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/text.h"
#include "comm/agent/island_relay.h"

namespace weft::test {
namespace {

// Of an island, in one run: far more than any need.
constexpr uint64_t kStepsMax = 1'000'000;

// The same group may fail again in a later epoch.
uint64_t GroupOf(const IslandEvent& event) {
  return uint64_t{event.epoch - 1} << 32 | event.verdict.record.group_id;
}

}  // namespace

bool SimIslandMemory::Write(uint64_t term, const IslandState& state) {
  if (term != term_) return false;
  if (state.epoch != state_.epoch) verdicts_.clear();
  state_ = state;
  return true;
}

std::vector<GroupVerdict> SimIslandMemory::ReadVerdicts() {
  std::vector<GroupVerdict> all;
  for (const auto& [group, verdict] : verdicts_)
    all.push_back(verdict);
  return all;
}

bool SimIslandMemory::WriteVerdict(uint64_t term, const GroupVerdict& verdict) {
  if (term != term_) return false;
  verdicts_[verdict.record.group_id] = verdict;
  if (on_verdict) on_verdict(verdict);
  return true;
}

// What ranks of an island want, in memory that they share.
struct IslandJob::Board {
  int version = 0;
  uint32_t epoch = 1;  // of what stands here
  std::vector<FailureRecord> records;
  bool reconfigure = false;
  int64_t deadline_ns = 0;
};

// What a process does for its island beside its agent: looks which process is to speak, and tells the agent what it must know.
class IslandJob::LocalSide {
 public:
  LocalSide(IslandJob* job, int island, int process)
      : job_(job), island_(island), process_(process) {}

  void Leave() {
    if (left_ns_ >= 0) return;
    left_ns_ = job_->world().now_ns();
    side().Leave();
  }

  int64_t left_ns() const { return left_ns_; }

  bool gone() const { return left_ns_ >= 0 && job_->sides_[island_][process_]->gone(); }

  bool gave_up() const { return gave_up_; }

  void Step() {
    if (gave_up_) return;
    ++job_->steps_;
    side().Step();
    IslandAgent& agent = side().agent();
    if (agent.speaking()) {
      Tell();
      agent.Step();
    }
    while (std::optional<IslandEvent> event = agent.NextEvent())
      job_->Note(island_, *event);
    if (left_ns_ < 0 || side().gone() || !GivesUp()) return;
    // Nobody steps it any more, and it is destroyed.
    gave_up_ = true;
    agent.Hush();
  }

  int64_t NextWakeNs() {
    if (gave_up_) return INT64_MAX;
    return side().NextWakeNs();  // often while it leaves
  }

 private:
  IslandSide& side() { return *job_->sides_[island_][process_]; }

  bool GivesUp() {
    const int64_t patience_ns = job_->shape_.leave_patience_ns;
    return patience_ns > 0 ? job_->world().now_ns() >= left_ns_ + patience_ns
                           : side().may_give_up();
  }

  void Tell() {
    Board& board = *job_->boards_[island_];
    const uint32_t epoch = job_->memories_[island_]->Read().epoch;
    if (board.epoch != epoch) {
      // The groups of the epoch before are gone, and who waited has got it.
      board = {.version = board.version + 1, .epoch = epoch};
    }
    if (told_version_ == board.version && told_beginning_ == side().beginnings()) return;
    told_version_ = board.version;
    told_beginning_ = side().beginnings();
    IslandAgent& agent = job_->agent(island_, process_);
    for (const FailureRecord& record : board.records)
      (void)agent.LocalRecord(record);
    if (!board.reconfigure) return;
    IslandNumberSet ranks(job_->map().rank_count());
    for (const int rank : job_->LivingRanks(island_))
      ranks.Add(rank);
    agent.StartReconfigure(ranks, board.deadline_ns);
  }

  IslandJob* const job_;
  const int island_;
  const int process_;
  int64_t left_ns_ = -1;
  bool gave_up_ = false;
  int told_version_ = -1;
  uint64_t told_beginning_ = 0;
};

// A process of this job's that is not in its map.
class IslandJob::Stranger {
 public:
  Stranger(IslandJob* job, SimNode* node, int island)
      : memory_(IslandNumberSet::All(job->map().rank_count())),
        agent_(node->seams(), {.secret = "a secret of the job"}, job->map(), &memory_, island, 0) {
    (void)agent_.Speak();
  }

  IslandAgent& agent() { return agent_; }

 private:
  SimIslandMemory memory_;
  IslandAgent agent_;
};

IslandJob::IslandJob(uint64_t seed, const IslandJobShape& shape)
    : shape_(shape), world_(seed, shape.stepping), seen_(static_cast<size_t>(shape.islands)) {
  std::vector<Island> islands(static_cast<size_t>(shape.islands));
  nodes_.resize(islands.size());
  for (int island = 0; island < shape.islands; ++island) {
    for (int process = 0; process < processes(); ++process) {
      SimNode* const node = world_.AddNode(process == 0 ? nullptr : nodes_[island][0]);
      nodes_[island].push_back(node);
      const bool rank = process < shape.ranks_per_island;
      islands[static_cast<size_t>(island)].processes.push_back(
          {.world_rank = rank ? RankOf(island, process) : -1,
           .pid = node->pid(),
           .start_time = node->Self().start_time,
           .endpoint = {.kind = Endpoint::Kind::kTcp,
                        .host = StrCat("10.", island / 256, ".", island % 256, ".1"),
                        .port = static_cast<uint16_t>(7000 + process)}});
    }
  }
  const int rank_count = shape.islands * shape.ranks_per_island;
  map_ = std::make_unique<IslandMap>(std::move(islands), rank_count, 0);
  sides_.resize(static_cast<size_t>(shape.islands));
  for (int island = 0; island < shape.islands; ++island) {
    memories_.push_back(std::make_unique<SimIslandMemory>(IslandNumberSet::All(rank_count)));
    boards_.push_back(std::make_unique<Board>());
    for (int process = 0; process < processes(); ++process) {
      SimNode* const node = nodes_[island][process];
      sides_[island].push_back(
          std::make_unique<IslandSide>(node->seams(),
                                       IslandAgentSettings{.secret = "a secret of the job",
                                                           .limit_ns = shape.limit_ns,
                                                           .gather_ns = shape.gather_ns},
                                       *map_, memories_[island].get(), island, process));
      WEFT_CHECK(sides_[island].back()->Watch().ok());
      local_sides_.push_back(std::make_unique<LocalSide>(this, island, process));
      LocalSide* const side = local_sides_.back().get();
      world_.AddActor({node, [side] { side->Step(); }, [side] { return side->NextWakeNs(); },
                       [this] {
                         return done_ && done_();
                       }});
    }
  }
}

IslandJob::~IslandJob() = default;

void IslandJob::RestartAt(int64_t time_ns, int island) {
  world_.KillAt(nodes_[island][0], time_ns, {.signal = 9});
  world_.CallAt(time_ns + 1'000'000, [this, island] {
    SimNode* const node = world_.AddNode(nodes_[island][0]);
    strangers_.push_back(std::make_unique<Stranger>(this, node, island));
    IslandAgent* const agent = &strangers_.back()->agent();
    world_.AddActor({node, [agent] { agent->Step(); }, [agent] { return agent->NextWakeNs(); },
                     [this] {
                       return done_ && done_();
                     }});
  });
}

IslandAgent* IslandJob::Speaker(int island) {
  for (int process = 0; process < processes(); ++process) {
    const SimNode* const node = nodes_[island][process];
    if (node->alive() && !node->stopped() && agent(island, process).speaking()) {
      return &agent(island, process);
    }
  }
  return nullptr;
}

IslandJob::LocalSide& IslandJob::local_side(int island, int process) const {
  return *local_sides_[static_cast<size_t>(island) * nodes_[island].size() +
                       static_cast<size_t>(process)];
}

void IslandJob::LeaveAt(int64_t time_ns, int island, int process) {
  world_.CallAt(time_ns, [this, island, process] {
    const SimNode* const node = nodes_[island][process];
    if (!node->alive() || node->stopped()) return;
    local_side(island, process).Leave();
    world_.Touch(node);
  });
}

int64_t IslandJob::LeftNs(int island, int process) const {
  return local_side(island, process).left_ns();
}

bool IslandJob::Gone(int island, int process) const {
  return local_side(island, process).gone();
}

bool IslandJob::GaveUp(int island, int process) const {
  return local_side(island, process).gave_up();
}

void IslandJob::RaiseAt(int64_t time_ns, int island, const FailureRecord& record) {
  world_.CallAt(time_ns, [this, island, record] {
    if (LivingRanks(island).empty()) return;
    boards_[island]->records.push_back(record);
    ++boards_[island]->version;
    for (const SimNode* node : nodes_[island])
      world_.Touch(node);
  });
}

void IslandJob::ReconfigureAt(int64_t time_ns, int island, int64_t deadline_ns) {
  world_.CallAt(time_ns, [this, island, deadline_ns] {
    if (LivingRanks(island).empty()) return;
    Board& board = *boards_[island];
    board.reconfigure = true;
    board.deadline_ns = deadline_ns;
    ++board.version;
    Seen& seen = seen_[island];
    if (seen.reconfigures++ == 0) seen.asked_ns = world_.now_ns();
    for (const SimNode* node : nodes_[island])
      world_.Touch(node);
  });
}

bool IslandJob::RunUntil(const std::function<bool()>& done, int64_t limit_ns) {
  const uint64_t steps_max = steps_ + kStepsMax * static_cast<uint64_t>(islands());
  done_ = [&] {
    return steps_ > steps_max || done();
  };
  const bool finished = world_.Run(limit_ns);
  done_ = nullptr;
  if (steps_ > steps_max) wrong_ += "agents run in circles\n";
  return finished && steps_ <= steps_max;
}

bool IslandJob::CanSpeak(int island) {
  for (int process = 0; process < processes(); ++process) {
    const SimNode* const node = nodes_[island][process];
    const bool away = Gone(island, process) || GaveUp(island, process);
    if (node->alive() && !node->stopped() && !away) return true;
  }
  return false;
}

std::vector<int> IslandJob::LivingRanks(int island) {
  std::vector<int> living;
  for (int process = 0; process < shape_.ranks_per_island; ++process) {
    if (nodes_[island][process]->alive() && LeftNs(island, process) < 0) {
      living.push_back(RankOf(island, process));
    }
  }
  return living;
}

void IslandJob::Note(int island, const IslandEvent& event) {
  Seen& seen = seen_[island];
  const int64_t now_ns = world_.now_ns();
  switch (event.kind) {
    case IslandEvent::Kind::kRankDead: {
      const int home = map_->IslandOf(event.rank);
      const int process = event.rank - RankOf(home, 0);
      if (nodes_[home][process]->alive()) {
        wrong_ += StrCat("island ", island, " calls rank ", event.rank, " dead, which lives\n");
      } else if (LeftNs(home, process) >= 0) {
        wrong_ += StrCat("island ", island, " calls rank ", event.rank, " dead, which had left\n");
      }
      seen.dead_ns.try_emplace(event.rank, now_ns);
      break;
    }
    case IslandEvent::Kind::kRankLeft: {
      const int home = map_->IslandOf(event.rank);
      if (LeftNs(home, event.rank - RankOf(home, 0)) < 0) {
        wrong_ += StrCat("island ", island, " says that rank ", event.rank, " has left\n");
      }
      seen.left_ns.try_emplace(event.rank, now_ns);
      break;
    }
    case IslandEvent::Kind::kUnreachable:
      seen.unreachable_ns[event.island] = now_ns;
      break;
    case IslandEvent::Kind::kGroupFailed:
      seen.failed_ns.try_emplace(GroupOf(event), now_ns);
      break;
    case IslandEvent::Kind::kRecordSettled: {
      const uint64_t group = GroupOf(event);
      const auto [known, first] = seen.settled.try_emplace(group, event.verdict);
      if (!(known->second.record == event.verdict.record)) {
        wrong_ += StrCat("island ", island, " settles group ", group, " twice\n");
      }
      seen.settled_ns.try_emplace(group, now_ns);
      break;
    }
    case IslandEvent::Kind::kAgreed:
    case IslandEvent::Kind::kLeftBehind: {
      const auto [known, first] = seen.agreed.try_emplace(event.epoch, event.ranks);
      if (!(known->second == event.ranks)) {
        wrong_ += StrCat("island ", island, " has two sets of epoch ", event.epoch, "\n");
      }
      seen.left_behind = event.kind == IslandEvent::Kind::kLeftBehind;
      break;
    }
    case IslandEvent::Kind::kNoQuorum:
      ++seen.no_quorum;
      ++seen.ends_without;
      break;
    case IslandEvent::Kind::kLate:
      seen.late = event.ranks;
      ++seen.ends_without;
      break;
  }
}

void IslandJob::ExpectSafe() {
  EXPECT_EQ(wrong_, "");
  std::map<uint32_t, IslandNumberSet> agreed;
  for (int island = 0; island < islands(); ++island) {
    for (const auto& [epoch, ranks] : seen_[island].agreed) {
      const auto [known, first] = agreed.try_emplace(epoch, ranks);
      EXPECT_TRUE(known->second == ranks)
          << "epoch " << epoch << " has two sets of ranks: " << known->second.ToString()
          << "; on island " << island << " " << ranks.ToString();
      for (const int rank : ranks.Numbers()) {
        const int home = map_->IslandOf(rank);
        const int64_t left_ns = LeftNs(home, rank - RankOf(home, 0));
        const int64_t asked_ns = seen_[home].asked_ns;
        EXPECT_FALSE(left_ns >= 0 && (asked_ns < 0 || left_ns < asked_ns))
            << "rank " << rank << " had left and is in epoch " << epoch;
      }
    }
  }
  for (int a = 0; a < islands(); ++a) {
    for (const auto& [group, ours] : seen_[a].settled) {
      for (int b = a + 1; b < islands(); ++b) {
        const auto theirs = seen_[b].settled.find(group);
        if (theirs == seen_[b].settled.end() || theirs->second.record == ours.record) continue;
        EXPECT_TRUE(ours.excluded.Has(b) || theirs->second.excluded.Has(a))
            << "islands " << a << " and " << b << " settle group " << group << " differently: \""
            << ours.record.sentence << "\", \"" << theirs->second.record.sentence << "\"";
      }
    }
  }
}

uint64_t IslandJob::frames_sent() {
  uint64_t sent = 0;
  for (const auto& sides : sides_) {
    for (const auto& side : sides)
      sent += side->agent().frames_sent();
  }
  return sent;
}

}  // namespace weft::test
