// Ranks as threads, over the real group and over the reference.
//
//   const std::vector<absl::Status> statuses =
//       RunRanks(kind, size, [&](int rank, std::shared_ptr<ProcessGroup> group) { ... });
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "comm/group/process_group.h"
#include "gtest/gtest.h"
#include "shard/context/context.h"

namespace weft {

enum class GroupKind { kLocal, kReference, kLazyReference };

inline constexpr GroupKind kGroupKinds[] = {GroupKind::kLocal, GroupKind::kReference,
                                            GroupKind::kLazyReference};
inline constexpr int kRankSet[] = {1, 2, 3, 4, 5, 7, 8};

// Sanitizers look for races and bad accesses, which a sample of the cases shows as well.
#ifdef WEFT_SANITIZE
inline constexpr bool kSampled = true;
#else
inline constexpr bool kSampled = false;
#endif

// In matrices of groups and ranks. Reference groups show what a real one hides; how many ranks they have adds nothing then.
inline bool LeftOut(GroupKind kind, int ranks) {
  return kSampled && (ranks == 4 || ranks > 5 || (kind != GroupKind::kLocal && ranks != 3));
}

const char* GroupKindName(GroupKind kind);

// Runs `body` on one thread per rank and returns what each returned, by rank. Groups are closed
// when all have returned.
using RankBody = std::function<absl::Status(int rank, std::shared_ptr<ProcessGroup> group)>;
std::vector<absl::Status> RunRanks(GroupKind kind, int size, const RankBody& body);

// Fails the test for every rank whose status is not Ok.
void ExpectAllOk(const std::vector<absl::Status>& statuses);

// What all ranks return, which fails the test unless it is the same; what rank 0 does if some fail.
template <typename Result, typename Body>
Result SameOnAllRanks(GroupKind kind, int size, const Body& body) {
  std::vector<Result> results(static_cast<size_t>(size));
  ExpectAllOk(
      RunRanks(kind, size, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(results[static_cast<size_t>(rank)], body(rank, std::move(group)));
        return absl::OkStatus();
      }));
  for (const Result& result : results)
    EXPECT_TRUE(result == results[0]);
  return results[0];
}

// A context over a mesh of `group`, of one axis unless sizes of several are given.
absl::StatusOr<std::unique_ptr<Context>> MakeContext(std::shared_ptr<ProcessGroup> group,
                                                     const ContextOptions& options = {},
                                                     const std::vector<int>& axes = {});

// A unit `name` with the one param `name`.weight. Returns the param's index, which is the unit's
// too when every unit is made by this.
absl::StatusOr<int> AddUnitWithParam(Context& context, std::string_view name,
                                     const std::vector<int64_t>& shape,
                                     weft_dtype_t dtype = WEFT_FLOAT32, bool frozen = false,
                                     const Placement& placement = {});

}  // namespace weft
