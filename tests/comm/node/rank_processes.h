// Ranks as processes, for tests of groups.
//
//   RunProcessRanks(4, [](ProcessGroup& group) -> std::string { return "what is wrong"; });
//
// Each rank makes the group, runs the body, closes the group and checks that it holds nothing more than
// before. Failures are EXPECTed here.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/wait.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "left_behind.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {

// The ranks in `killed` must end by a signal.
inline void RunProcessRanks(int size, const std::function<std::string(ProcessGroup&)>& body,
                            const std::vector<int>& killed = {}, double limit_s = 240) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(size, limit_s, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    std::string problem;
    {
      DirectoryStore store(directory.path());
      auto group = MakeNodeGroup(&store, rank, size, {.name = "p", .timeout_ns = 120'000'000'000});
      if (!group.ok()) return std::string(group.status().message());
      problem = body(**group);
      (*group)->Close();
    }
    if (!problem.empty()) return problem;
    return LeftBehind(before);
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    const bool dead = std::find(killed.begin(), killed.end(), rank) != killed.end();
    if (dead) {
      EXPECT_TRUE(WIFSIGNALED(ends[rank].wait_status));
    } else {
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
    }
  }
}

}  // namespace weft::test
