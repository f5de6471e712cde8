// Islands of real processes on this machine, connected by TCP on loopback: fake nodes, each of which keeps its memory to itself.
//
//   RealIslands job({.islands = 3, .ranks_per_island = 2});
//   ASSERT_EQ(job.AwaitConnected(), "");
//   job.Signal(1, 0, SIGKILL);
//   EXPECT_TRUE(job.AwaitAll([&](int island) { return job.FindDeath(island, job.RankOf(1, 0)) != nullptr; }, 1 * kSecondNs));
//
// Each process runs an IslandSide on the system's clock, sockets and pidfds, moved by an Agent as the progress thread's, and writes what
// it is told into memory that it shares with the test. All of them are killed with the object, and if the test ends. It must have no other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/pages.h"
#include "comm/agent/island_side.h"

namespace weft::test {

struct RealIslandsShape {
  int islands = 2;
  int ranks_per_island = 2;
  int64_t limit_ns = 10'000'000'000;  // longer than a process may be without a CPU
  // Where processes of an island listen; none: on loopback, at addresses that no other test has.
  std::vector<std::string> hosts;
  // Called in each process before it does anything.
  std::function<void(int island)> enter;
};

// What a process was told by its agent.
struct RealEvent {
  IslandEvent::Kind kind;
  int64_t time_ns;
  int32_t rank;
  int32_t island;
  int32_t signal;
  uint64_t group;
  int32_t culprit;
  weft_result_t result;
  uint32_t epoch;
  uint64_t ranks;  // a bit each
};

class RealIslands {
 public:
  explicit RealIslands(RealIslandsShape shape);
  RealIslands(const RealIslands&) = delete;
  RealIslands& operator=(const RealIslands&) = delete;
  ~RealIslands();

  int islands() const { return shape_.islands; }

  int RankOf(int island, int process) const { return island * shape_.ranks_per_island + process; }

  pid_t pid(int island, int process) const;

  // SIGKILL, SIGSTOP, SIGCONT.
  void Signal(int island, int process, int signal);
  void SignalIsland(int island, int signal);

  // From ranks of the island, whoever speaks for them.
  void Raise(int island, uint64_t group, weft_result_t result, int culprit);
  // All islands' living ranks wait for a new membership.
  void Reconfigure(const std::vector<int>& islands, int64_t deadline_ns);
  // The speaker's connections break, as if something between the machines had ended them.
  void BreakConnections(int island);

  // The process that speaks for the island; -1: none.
  int Speaker(int island) const;
  int Connected(int island) const;  // islands, as its speaker sees it; itself too
  uint64_t Answers(int island) const;
  int64_t CpuNs(int island, int process) const;

  // What its processes were told, process by process.
  std::vector<RealEvent> Events(int island) const;
  std::optional<RealEvent> Find(int island,
                                const std::function<bool(const RealEvent&)>& fits) const;
  std::optional<RealEvent> FindDeath(int island, int rank) const;
  std::optional<RealEvent> FindSettled(int island, uint64_t group) const;
  int Count(int island, IslandEvent::Kind kind) const;

  // Until `done`, which is asked whenever a process was told something; false at the deadline.
  bool Await(const std::function<bool()>& done, int64_t within_ns);
  // For each island that has living processes.
  bool AwaitAll(const std::function<bool(int island)>& done, int64_t within_ns);
  // "", or what is there instead after 20 s. Fails a group 1 for it.
  std::string AwaitConnected();
  // Lets so much time go by.
  void Quiet(int64_t ns);

  // One line per island, for failures.
  std::string Describe() const;

 private:
  struct IslandBoard;
  struct ProcessNotes;
  class Rank;

  IslandBoard& board(int island) const;
  ProcessNotes& notes(int island, int process) const;
  void Ring(int island);
  bool Lives(int island) const;

  const RealIslandsShape shape_;
  Pages shared_;
  std::vector<Pages> memories_;
  std::vector<pid_t> pids_;
  std::vector<bool> killed_;
  std::vector<int> bells_;  // of the processes
  int told_ = -1;           // rings when one was told something
};

}  // namespace weft::test
