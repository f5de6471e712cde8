// Ranks as threads, for tests.
//
//   EXPECT_EQ(RunThreadRanks(4, {.name = "t"}, [](ProcessGroup& group) -> std::string {...}), "");
//
// Each body runs on its own thread; the groups are closed afterwards, all ranks at once.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/group/process_group.h"
#include "comm/node/make_group.h"

namespace weft::test {

// Every test of a collective runs on these numbers of ranks; docs/testing.md says why.
inline constexpr int kThreadRanks[] = {1, 2, 3, 4, 5, 7, 8};
inline constexpr int kProcessRanks[] = {1, 2, 4, 8};

inline std::string RunThreadRanks(int size, const GroupOptions& options,
                                  const std::function<std::string(ProcessGroup&)>& body) {
  auto groups = CreateLocalGroups(size, options);
  if (!groups.ok()) return std::string(groups.status().message());
  std::vector<std::string> problems(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroup& group = *(*groups)[static_cast<size_t>(rank)];
      problems[static_cast<size_t>(rank)] = body(group);
      if (!problems[static_cast<size_t>(rank)].empty()) group.Abort("the test has failed");
      group.Close();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace weft::test
