#include "comm/hierarchy/scatter_choice.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/halving_blocks.h"
#include "comm/schedule/order_path.h"
#include "comm/schedule/reduction_order.h"

namespace weft {
namespace {

double PortNs(const LinkCost& cost, double bytes) {
  return bytes * cost.ns_per_byte;
}

// Until a message of so many bytes is there, but for the time of ranks and ports. A large one waits for word that its receive was posted, at the same
// time.
double LatencyNs(const LinkModel& model, const LinkCost& cost, double bytes) {
  const auto once = static_cast<double>(cost.latency_ns);
  return bytes > static_cast<double>(model.ahead_bytes) ? 2 * once : once;
}

// The ranks of an island send to all others at once, through its one port, while they make more messages.
double DirectNs(double block_bytes, const Islands& islands, const LinkModel& model) {
  const auto size = static_cast<double>(islands.island_of.size());
  double most = 0;
  for (const auto& ranks : islands.ranks) {
    const auto near = static_cast<double>(ranks.size()) - 1;
    const double far = size - 1 - near;
    const double messages = 2 * far * static_cast<double>(model.far.overhead_ns) +
                            2 * near * static_cast<double>(model.near.overhead_ns);
    const double bytes = std::max(PortNs(model.far, far * (near + 1) * block_bytes),
                                  PortNs(model.near, near * block_bytes));
    most = std::max(most, std::max(messages, bytes) + LatencyNs(model, model.far, block_bytes));
  }
  return most;
}

// At a level of halving, on a rank's way up the tree.
struct HalvingStep {
  bool near = false;  // what it receives comes from its island
  double mine = 0;    // ranks whose sum it has
  double others = 0;
};

std::vector<HalvingStep> StepsOf(int rank, const ReductionOrder& order, const Islands& islands) {
  const OrderPath path(order, rank);
  const HalvingBlocks blocks(order);
  const auto island_of = [&](int of) {
    return islands.island_of[static_cast<size_t>(of)];
  };
  std::vector<HalvingStep> steps;
  for (int level = 1; level <= path.levels(); ++level) {
    const OrderStep& step = path.At(level);
    steps.push_back({.near = island_of(blocks.HolderAt(step.sibling, rank)) == island_of(rank),
                     .mine = static_cast<double>(step.mine.count),
                     .others = static_cast<double>(step.sibling.count)});
  }
  return steps;
}

// What a rank has of the sum of a vertex of a ranks is 1/a of the vector. Who has few ranks on its side sends to several of the other one.
// `widened`: what sums on the way take, of the bytes of contributions.
double HalvingNs(double bytes, double widened, const Islands& islands, const LinkModel& model) {
  const ReductionOrder order(static_cast<int>(islands.island_of.size()));
  double most = 0;
  for (const std::vector<int>& ranks : islands.ranks) {
    std::vector<std::vector<HalvingStep>> all;
    std::vector<int> at_port(
        static_cast<size_t>(order.Levels()));  // by level: ranks that send off the island
    for (const int rank : ranks) {
      const auto& steps = all.emplace_back(StepsOf(rank, order, islands));
      for (size_t level = 0; level < steps.size(); ++level)
        at_port[level] += steps[level].near ? 0 : 1;
    }
    for (const std::vector<HalvingStep>& steps : all) {
      double ns = 0;
      for (size_t level = 0; level < steps.size(); ++level) {
        const auto& [near, mine, others] = steps[level];
        const LinkCost& cost = model.CostOf(near);
        const double sent = bytes * others / (mine * (mine + others)) * (level == 0 ? 1 : widened);
        ns += LatencyNs(model, cost, sent) +
              (1 + std::max(1.0, others / mine)) * static_cast<double>(cost.overhead_ns) +
              PortNs(cost, near ? sent : sent * at_port[level]);
      }
      most = std::max(most, ns);
    }
  }
  return most;
}

}  // namespace

bool IsScatteredByHalving(const Collective& call, uint64_t bytes, const Islands& islands,
                          const LinkModel& model) {
  const auto ranks = static_cast<double>(islands.island_of.size());
  const size_t accumulator_bytes = DtypeSize(AccumulatorDtype(call.dtype, call.op));
  double widened =
      static_cast<double>(accumulator_bytes) / static_cast<double>(DtypeSize(call.dtype));
  auto all = static_cast<double>(bytes);
  // Multiplied, the contributions are accumulators.
  if (call.op == kOpPremulSum) all *= std::exchange(widened, 1);
  return HalvingNs(all, widened, islands, model) < DirectNs(all / ranks, islands, model);
}

}  // namespace weft
