// Keeps the ranks of a group spread over the CPUs that they may use.
//
//   CpuSpread spread;
//   spread.Look(state);   // on a thread that has to wait for a while
//
// Two ranks that wait for each other on one CPU are idle half of the time each, and ranks that yield to each other
// never sleep: the system sees no reason to move either, and leaves them together for tens of milliseconds while
// another CPU has nothing to do. Where each rank runs is known (NodeState::NoteCpu). So a rank that shares its CPU with
// two ranks more than another CPU has goes there: of a crowd the last ones, so that not all go at once.
//
// A thread is moved by its affinity, which is what it was before when Look returns; a change that another thread makes of
// it in these microseconds is lost. It moves seldom: if somebody else's work is the reason why a CPU has few ranks, and
// the system moves the thread back, little is lost. WEFT_SPREAD=0 moves nobody.
//
// Thread-safety: none; one per rank of a group, as NodeState.
#pragma once

#include <cstdint>
#include <span>

#include <sched.h>

#include "comm/node/node_state.h"

namespace weft {

// Where `rank`, which runs on cpus[rank], should rather run: any of these; none if it may stay. `cpus`: by rank,
// kUnknownCpu where it is not known. When all ranks do as they are told, no two CPUs that all may use differ by two
// ranks.
cpu_set_t BetterCpus(std::span<const uint32_t> cpus, int rank, const cpu_set_t& allowed);

// Moves the calling thread to one of `cpus`, that it may use. Its affinity stays as it is. False if the system refused.
bool MoveToOneOf(const cpu_set_t& cpus, const cpu_set_t& allowed);

class CpuSpread {
 public:
  // Moves this rank if that is better.
  void Look(NodeState& state);

 private:
  uint32_t calls_until_look_ = 1;
  int64_t stays_until_ns_ = 0;
};

}  // namespace weft
