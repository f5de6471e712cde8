// A simulated job of several islands: processes on machines, what each island shares in its memory, and the local side that says
// who speaks. It notes what agents report, and knows what has really happened.
//
//   IslandJob job(seed, {.islands = 5, .ranks_per_island = 3});
//   job.RaiseAt(time_ns, island, record);
//   job.world().KillAt(job.node(island, process), time_ns);
//   job.LeaveAt(time_ns, island, process);
//   EXPECT_TRUE(job.RunUntil([&] { return job.Settled(group); }, limit_ns));
//   job.ExpectSafe();
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/agent/island_agent.h"
#include "comm/agent/island_side.h"
#include "tests/sim/sim_world.h"

namespace weft::test {

// What the processes of an island share.
class SimIslandMemory : public IslandMemory {
 public:
  explicit SimIslandMemory(IslandNumberSet members) { state_.members = std::move(members); }

  uint64_t Take() override { return ++term_; }

  bool Holds(uint64_t term) override { return term == term_; }

  IslandState Read() override { return state_; }

  bool Write(uint64_t term, const IslandState& state) override;
  std::vector<GroupVerdict> ReadVerdicts() override;
  bool WriteVerdict(uint64_t term, const GroupVerdict& verdict) override;

  void SetPresence(int process, IslandPresence presence) override {
    presences_[process] = presence;
  }

  IslandPresence PresenceOf(int process) override { return presences_[process]; }

  // Called after each WriteVerdict().
  std::function<void(const GroupVerdict&)> on_verdict;

 private:
  uint64_t term_ = 0;
  IslandState state_;
  std::map<uint64_t, GroupVerdict> verdicts_;
  std::map<int, IslandPresence> presences_;
};

struct IslandJobShape {
  int islands = 2;
  int ranks_per_island = 1;
  bool launcher = false;  // an agent of the launcher's on each machine
  int64_t limit_ns = 3'000'000'000;
  int64_t gather_ns = 20'000'000;
  // How long a process that leaves waits until it may go; 0: as its side says.
  int64_t leave_patience_ns = 0;
  SimWorld::Stepping stepping = SimWorld::Stepping::kTouched;
};

class IslandJob {
 public:
  IslandJob(uint64_t seed, const IslandJobShape& shape);
  ~IslandJob();

  SimWorld& world() { return world_; }

  const IslandMap& map() const { return *map_; }

  int islands() const { return shape_.islands; }

  int processes() const { return shape_.ranks_per_island + (shape_.launcher ? 1 : 0); }

  SimNode* node(int island, int process) { return nodes_[island][process]; }

  IslandAgent& agent(int island, int process) { return sides_[island][process]->agent(); }

  // The agent that speaks for the island; nullptr: none does.
  IslandAgent* Speaker(int island);

  SimIslandMemory& memory(int island) { return *memories_[island]; }

  int RankOf(int island, int process) const { return island * shape_.ranks_per_island + process; }

  // From the island's ranks, whoever speaks for them then.
  void RaiseAt(int64_t time_ns, int island, const FailureRecord& record);
  void ReconfigureAt(int64_t time_ns, int island, int64_t deadline_ns);

  // The process takes no part in the job any more, though it lives. One that has ended or is stopped then does nothing.
  void LeaveAt(int64_t time_ns, int island, int process);

  // When the process left; -1: it has not.
  int64_t LeftNs(int island, int process) const;
  // It has left, and need not be there any more; or its patience has come to an end before that.
  bool Gone(int island, int process) const;
  bool GaveUp(int island, int process) const;

  // The island's first process ends; another one begins in its place, knows the secret, and takes itself for it.
  void RestartAt(int64_t time_ns, int island);

  // Runs until `done`, which is looked at whenever something happens; false if that is not so at `limit_ns`.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns);

  // A process of the island can speak: it lives, is not stopped, and has not gone.
  bool CanSpeak(int island);
  // Ranks of the island that live and have not left.
  std::vector<int> LivingRanks(int island);

  struct Seen {
    // By group, of a later epoch e by group + (e - 1 << 32).
    std::map<uint64_t, int64_t> failed_ns;  // when it first heard of the group's end
    std::map<uint64_t, GroupVerdict> settled;
    std::map<uint64_t, int64_t> settled_ns;
    std::map<uint32_t, IslandNumberSet> agreed;  // by epoch; also those that it was left out of
    std::map<int, int64_t> dead_ns;              // ranks
    std::map<int, int64_t> left_ns;              // ranks
    std::map<int, int64_t> unreachable_ns;       // islands, the last time
    int ends_without = 0;                        // NO_QUORUM, or late
    int no_quorum = 0;
    IslandNumberSet late;
    bool left_behind = false;
    int reconfigures = 0;   // asked for
    int64_t asked_ns = -1;  // when for the first time
  };

  const Seen& seen(int island) const { return seen_[island]; }

  // One set per epoch, without those who had left before; nobody is called dead who lives or has left, nor left who has not; settled
  // records are the same but where islands have excluded each other.
  void ExpectSafe();

  uint64_t frames_sent();

 private:
  struct Board;
  class LocalSide;
  class Stranger;

  LocalSide& local_side(int island, int process) const;
  void Note(int island, const IslandEvent& event);

  const IslandJobShape shape_;
  SimWorld world_;
  std::unique_ptr<IslandMap> map_;
  std::vector<std::vector<SimNode*>> nodes_;
  std::vector<std::unique_ptr<SimIslandMemory>> memories_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::vector<std::vector<std::unique_ptr<IslandSide>>> sides_;
  std::vector<std::unique_ptr<LocalSide>> local_sides_;
  std::vector<Seen> seen_;
  std::vector<std::unique_ptr<Stranger>> strangers_;
  std::function<bool()> done_;
  std::string wrong_;  // found while running
  uint64_t steps_ = 0;
};

}  // namespace weft::test
