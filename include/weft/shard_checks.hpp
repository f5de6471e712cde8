// The checks of a shard context for C++17; see shard_checks.h.
//
//   weft::CheckSamples(context, batch.data(), batch.size() * sizeof(batch[0]));
//   const weft::ShardReport report = weft::ReportRanks(context, group);
//   for (const weft_shard_rank_report_t& rank : report.ranks) ... rank.param_bytes ...
//
// Order of calls, collective calls, errors and the thread rule are as in shard_checks.h.
#ifndef WEFT_SHARD_CHECKS_HPP_
#define WEFT_SHARD_CHECKS_HPP_

#include <cstddef>
#include <vector>

#include "weft/shard.hpp"
#include "weft/shard_checks.h"

namespace weft {
inline namespace interface_0 {

// Throws WEFT_MISMATCH if another rank was given the same `bytes` at `samples`. Collective.
inline void CheckSamples(const ShardContext& context, const void* samples, std::size_t bytes) {
  Check(weft_shard_check_samples(context.get(), samples, bytes));
}

// What all ranks report, and what it amounts to.
struct ShardReport {
  weft_shard_report_t summary = {};
  std::vector<weft_shard_rank_report_t> ranks;  // by rank
};

// What every rank keeps and how long its steps took since the last report; `group` is the mesh's. Collective.
inline ShardReport ReportRanks(const ShardContext& context, const Group& group) {
  ShardReport report;
  report.summary.struct_size = sizeof(report.summary);
  report.ranks.resize(static_cast<std::size_t>(group.Size()));
  report.ranks[0].struct_size = sizeof(report.ranks[0]);
  Check(weft_shard_context_report(context.get(), &report.summary, report.ranks.data(),
                                  static_cast<int>(report.ranks.size())));
  return report;
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SHARD_CHECKS_HPP_
