#include "comm/node/cpu_spread.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/options.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr uint32_t kCallsPerLook = 16;  // a look reads a line of each peer
// Some hundred times what a move takes, with caches that must be filled again.
constexpr int64_t kStayNs = 5'000'000;

bool MayUse(const cpu_set_t& allowed, uint32_t cpu) {
  return cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed);
}

}  // namespace

cpu_set_t BetterCpus(std::span<const uint32_t> cpus, int rank, const cpu_set_t& allowed) {
  cpu_set_t better;
  CPU_ZERO(&better);
  const uint32_t here = cpus[static_cast<size_t>(rank)];
  if (here >= CPU_SETSIZE) return better;
  std::array<uint16_t, CPU_SETSIZE> ranks_on{};
  int before = 0;  // ranks on this CPU that come before this one
  for (size_t peer = 0; peer < cpus.size(); ++peer) {
    if (cpus[peer] >= CPU_SETSIZE) continue;
    ++ranks_on[cpus[peer]];
    if (cpus[peer] == here && peer < static_cast<size_t>(rank)) ++before;
  }
  int fewest = ranks_on[here];
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (MayUse(allowed, cpu)) fewest = std::min<int>(fewest, ranks_on[cpu]);
  const int excess = (ranks_on[here] - fewest) / 2;
  if (before < ranks_on[here] - excess) return better;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (MayUse(allowed, cpu) && ranks_on[cpu] == fewest) CPU_SET(cpu, &better);
  return better;
}

bool MoveToOneOf(const cpu_set_t& cpus, const cpu_set_t& allowed) {
  if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) return false;
  if (sched_setaffinity(0, sizeof(allowed), &allowed) == 0) return true;
  LogWarn("a thread was moved to another CPU and its affinity could not be put back (",
          std::strerror(errno), "); WEFT_SPREAD=0 moves none");
  return false;
}

void CpuSpread::Look(NodeState& state) {
  if (--calls_until_look_ != 0) return;
  if (!GetOptions().spread) return;
  calls_until_look_ = kCallsPerLook;
  std::array<uint32_t, kNodeRanksMax> cpus;
  const std::span<uint32_t> known(cpus.data(), static_cast<size_t>(state.size));
  int here = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    known[static_cast<size_t>(peer)] = state.control(peer).cpu.load(std::memory_order_relaxed);
    here += state.SharesCpu(peer) ? 1 : 0;
  }
  if (here < 2) return;
  const int64_t now_ns = MonotonicNs();
  if (now_ns < stays_until_ns_) return;
  cpu_set_t allowed;  // asked again each time: the caller may change it
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const cpu_set_t better = BetterCpus(known, state.rank, allowed);
  if (CPU_COUNT(&better) == 0) return;
  stays_until_ns_ = now_ns + kStayNs;
  if (MoveToOneOf(better, allowed)) state.NoteCpu(static_cast<uint32_t>(sched_getcpu()));
}

}  // namespace weft
