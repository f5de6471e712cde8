// The local side of an island's agent, in each of its processes: who is to speak for the island, and what the speaker must know of the
// others. With it an agent can be run:
//
//   IslandSide side(seams, settings, map, &memory, island, process);
//   WEFT_RETURN_IF_ERROR(side.Watch());
//   while (...) {
//     side.AppendPollItems(&items);                    // wait for these, or until side.NextWakeNs()
//     side.Step();
//     if (side.beginnings() != told) ...               // it has begun to speak: say again what it must be told (island_agent.h)
//     while (std::optional<IslandEvent> event = side.agent().NextEvent()) ...
//   }
//   side.Leave();                                      // this process takes no part any more: steps until
//   if (side.gone() || side.may_give_up()) ...
//
// That is what comm/agent/agent.h does with it, by way of a Watched.
//
// The lowest process of the island's list speaks that has not ended and is not stalled. Both are facts, by pidfd and by /proc: nobody is asked,
// and nothing is shared for it but the island's memory, whose term decides if two think that they are the one. A process looks
// only at those below it; with all well that is one look at the first of them, now and then, and none by the first itself.
//
// Thread-safety: owned by one thread; nothing waits. Owns the agent and a descriptor per process of the island.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/proc.h"
#include "base/seams.h"
#include "comm/agent/island_agent.h"
#include "comm/agent/island_map.h"
#include "comm/agent/island_memory.h"

namespace weft {

class IslandSide {
 public:
  static constexpr int64_t kLeaveMaxNs = 12'000'000'000;

  // As IslandAgent's.
  IslandSide(const Seams& seams, const IslandAgentSettings& settings, const IslandMap& map,
             IslandMemory* memory, int island, int process);
  IslandSide(const IslandSide&) = delete;
  IslandSide& operator=(const IslandSide&) = delete;
  ~IslandSide();

  // From here on it knows who ends. Before the first step.
  absl::Status Watch();

  // This process takes no part in the job any more. It is stepped on until another one speaks for the island or, if it is the
  // last, the other islands have been told.
  void Leave();

  bool gone() const { return gone_; }

  // It has left, and need not try any longer to tell the others. They may be stopped, or have left as well, a moment before they were connected
  // with it: then nobody answers. After a sixth of the limit, at most 2 s; or so long after it was connected with the last of those neighbours that
  // it never was before, as early in a job whose processes hardly get a CPU, but a limit after it has left, at most kLeaveMaxNs.
  bool may_give_up() const { return may_give_up_; }

  IslandAgent& agent() { return agent_; }

  // How often this process has begun to speak.
  uint64_t beginnings() const { return beginnings_; }

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  void Step();

 private:
  struct Fellow {
    std::unique_ptr<PeerProcess> process;  // nullptr: this one
    int world_rank = -1;
    bool ended = false;  // or it has left
    bool left = false;
    bool told = false;  // to the agent, since it speaks
    int64_t stalled_since_ns = -1;
  };

  bool Concerns(size_t place) const;
  void NoticeEnds();
  bool Stalls(Fellow* fellow, int64_t now_ns);
  void Choose(int64_t now_ns);
  void StepLeaving(int64_t now_ns);
  bool IsSaid() const;
  bool IsSpokenFor(int64_t now_ns);
  bool IsLast() const;

  const Seams seams_;
  const IslandMap& map_;
  const int island_;
  IslandMemory* const memory_;
  const size_t place_;  // of this process
  const int64_t look_ns_;
  const int64_t stalled_ns_;
  const int64_t leave_ns_;
  IslandAgent agent_;
  std::vector<Fellow> fellows_;  // as in the map
  int64_t next_look_ns_ = 0;
  uint64_t beginnings_ = 0;
  bool leaving_ = false;
  int64_t left_ns_ = 0;
  int64_t awaited_ns_ =
      0;  // when it last lacked a neighbour that it never met; at first, when it left
  bool may_give_up_ = false;
  bool gone_ = false;
};

}  // namespace weft
