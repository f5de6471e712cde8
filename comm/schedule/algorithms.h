// The schedules that weft can compute.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> ring, MakeSchedule("ring", goal));
//   for (const ScheduleAlgorithm& one : kScheduleAlgorithms) fmt::print("{}: {}\n", one.name, one.meaning);
//
// Each algorithm is a source of its own, named after it, with its maths and where it comes from. None builds a table: the ops of one
// participant are computed without those of others.
//
// Thread-safety: pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/schedule/schedule.h"

namespace weft {

struct ScheduleAlgorithm {
  std::string_view name;
  std::string_view meaning;
  // Null if the algorithm is not for such a goal, which has been checked.
  std::unique_ptr<CollectiveSchedule> (*make)(const ScheduleGoal& goal);
};

// Of each algorithm: null for goals that it does not serve.
std::unique_ptr<CollectiveSchedule> MakeDirectSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeRingSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeTreeHalvingSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeRecursiveDoublingSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeBinomialSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeParameterServerSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeBruckSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeScatterGatherSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakeDoubleTreeSchedule(const ScheduleGoal& goal);
std::unique_ptr<CollectiveSchedule> MakePrefixDoublingSchedule(const ScheduleGoal& goal);

inline constexpr ScheduleAlgorithm kScheduleAlgorithms[] = {
    {"direct", "everybody sends to everybody what that one needs; one level, two for all_reduce",
     MakeDirectSchedule},
    {"ring",
     "each sends to the next one; N - 1 levels, twice that for all_reduce; sums in no order",
     MakeRingSchedule},
    {"tree_halving",
     "all_reduce along the tree of the sums, each vertex cut in proportion, log2 N levels up and "
     "back; reduce_scatter, log2 N levels up",
     MakeTreeHalvingSchedule},
    {"recursive_doubling", "all_reduce of whole vectors along the tree of the sums; log2 N levels",
     MakeRecursiveDoublingSchedule},
    {"binomial", "goals with a root along a binomial tree; log2 N levels", MakeBinomialSchedule},
    {"bruck", "all_gather and barrier in log2 N levels for every N", MakeBruckSchedule},
    {"parameter_server",
     "all_reduce by way of participant 0, which moves N - 1 vectors each way; for comparison",
     MakeParameterServerSchedule},
    {"scatter_gather", "broadcast as a scatter along a binomial tree and a gather around a ring",
     MakeScatterGatherSchedule},
    {"double_tree", "all_reduce over two binary trees, in chunks; sums in no order",
     MakeDoubleTreeSchedule},
    {"prefix_doubling",
     "scan and exscan of whole vectors along the tree of the sums; log2 N levels",
     MakePrefixDoublingSchedule},
};

// INVALID_ARGUMENT if there is no such algorithm, or the goal is none; UNSUPPORTED if the algorithm does not serve the goal.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> MakeSchedule(std::string_view algorithm,
                                                                 const ScheduleGoal& goal);

}  // namespace weft
