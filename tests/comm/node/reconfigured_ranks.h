// Ranks that make their group anew, for tests.
//
//   std::shared_ptr<ProcessGroup> group = ...;
//   if (std::string problem = GoOn(&group); !problem.empty()) return problem;   // with those that live
//   return CheckPlace(*group, {.size = 3, .rank = 1, .world_rank = 2});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective_case.h"
#include "comm/group/process_group.h"
#include "message_case.h"

namespace weft::test {

constexpr int64_t kReconfigureNs = 60'000'000'000;  // ends a test that would hang

// Replaces *group; "" or what is wrong. A rank that is not listed gets nullptr.
inline std::string GoOn(std::shared_ptr<ProcessGroup>* group, const std::vector<int>& members = {},
                        int64_t timeout_ns = kReconfigureNs) {
  GroupOptions options;
  options.name = "";
  options.init_timeout_ns = timeout_ns;
  auto next = (*group)->Reconfigure(members, options);
  if (!next.ok()) return Text(next.status());
  *group = *std::move(next);
  return "";
}

struct ExpectedPlace {
  int size = 1;
  int rank = 0;
  int world_rank = 0;
  uint64_t sequence = 0;  // of the last collective
};

// "" if the rank has that place, and the group sums: small and large, private and where peers reach it.
inline std::string CheckPlace(ProcessGroup& group, const ExpectedPlace& place) {
  const std::string found = "size " + std::to_string(group.size()) + ", rank " +
                            std::to_string(group.rank()) + ", world rank " +
                            std::to_string(group.world_rank(group.rank()));
  const std::string wanted = "size " + std::to_string(place.size) + ", rank " +
                             std::to_string(place.rank) + ", world rank " +
                             std::to_string(place.world_rank);
  if (found != wanted) return "found " + found + ", not " + wanted;
  if (group.sequence() != place.sequence) {
    return "sequence number " + std::to_string(group.sequence());
  }
  if (!group.error().ok()) return Text(group.error());
  for (const Memory memory : {Memory::kPrivate, Memory::kSymmetric}) {
    for (const size_t count : {size_t{1}, size_t{1021}, size_t{50'000}}) {
      const CollectiveCase test{.kind = OpKind::kAllReduce, .count = count, .seed = 3 + count};
      std::string problem = RunCase(group, test, {.in = memory, .out = memory});
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace weft::test
