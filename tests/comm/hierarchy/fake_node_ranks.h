// The ranks of a group over fake nodes of this machine, as processes.
//
//   RunNodes({.size = 4, .nodes = "0,1,0,1"}, [](ProcessGroup& group) -> std::string {
//     return group.Run(call).ok() ? "" : "what is wrong";
//   });
//
// Each makes the group, runs the body, closes the group, and must have nothing left of it. A rank that is to be `killed` must end by
// a signal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/options.h"
#include "base/text.h"
#include "comm/hierarchy/make_group.h"
#include "tests/comm/node/directory_store.h"
#include "tests/comm/node/left_behind.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {

inline constexpr int64_t kSecondNs = 1'000'000'000;

struct Nodes {
  int size;
  const char* nodes;
};

inline constexpr Nodes kNodes[] = {{2, "2"}, {3, "0,0,1"}, {4, "2"}, {4, "0,1,0,1"}, {5, "3"}};

inline void RunNodes(const Nodes& shape,
                     const std::function<std::string(ProcessGroup& group)>& body,
                     const SpanSettings& span, int killed = -1,
                     int64_t timeout_ns = 60 * kSecondNs) {
  SCOPED_TRACE(StrCat(shape.size, " ranks on nodes ", shape.nodes));
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(shape.size, 120, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      const auto group =
          MakeGroup(&store, rank, shape.size,
                    {.name = "s", .timeout_ns = timeout_ns, .init_timeout_ns = 60 * kSecondNs},
                    {.fake_nodes = shape.nodes,
                     .transport = GetOptions().transport,
                     .streams = static_cast<int>(GetOptions().net_streams),
                     .span = span});
      if (!group.ok()) return StrCat("making: ", std::string(group.status().message()));
      problem = body(**group);
      (*group)->Close();
    }
    return problem.empty() ? LeftBehind(before) : problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (static_cast<int>(rank) == killed) {
      EXPECT_TRUE(WIFSIGNALED(ends[rank].wait_status));
    } else {
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
    }
  }
}

inline void RunNodes(const Nodes& shape,
                     const std::function<std::string(ProcessGroup& group)>& body, int killed = -1,
                     int64_t timeout_ns = 60 * kSecondNs) {
  RunNodes(shape, body, SpanSettings{}, killed, timeout_ns);
}

// No rank gets a group, each with schedules of its own; `check` says what is wrong with the rank's error. Soon, and not at the deadline.
inline void FailToMake(
    const Nodes& shape, const std::function<std::string(int rank)>& schedule_files,
    const std::function<std::string(int rank, const absl::Status& status)>& check) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(shape.size, 60, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    const auto group =
        MakeGroup(&store, rank, shape.size, {.name = "s", .init_timeout_ns = 100 * kSecondNs},
                  {.fake_nodes = shape.nodes, .span = {.schedule_files = schedule_files(rank)}});
    if (!group.ok()) return check(rank, group.status());
    (*group)->Close();
    return "the group was made";
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

}  // namespace weft::test
