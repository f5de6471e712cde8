// The C++ wrapper: completion queues, and the failures that works are asked for. C++17.
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.hpp"

#include "tests/install/local_ranks.h"

namespace {

using weft_test::OnRanks;

TEST(WrapperCompletionQueue, TellsWorksThatAreGone) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const weft::CompletionQueue queue = weft::CompletionQueue::Create();
    std::vector<std::vector<int>> sums(10, std::vector<int>(100, rank));
    for (std::uint64_t i = 0; i < sums.size(); ++i)
      queue.Add(group.Start().AllReduce(sums[i].data(), sums[i].data(), 100, WEFT_SUM), i);
    std::set<std::uint64_t> tokens;
    while (queue.Pending() > 0) {
      weft_completion_t ended[4];
      const std::size_t count = queue.Wait(ended, 4);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(ended[i].result, WEFT_SUCCESS) << ended[i].message;
        tokens.insert(ended[i].token);
      }
    }
    EXPECT_EQ(tokens.size(), sums.size());
    for (const auto& sum : sums)
      EXPECT_EQ(sum, std::vector<int>(100, 1));
  });
}

TEST(WrapperCompletionQueue, IsWokenAndTimesOutWithNothing) {
  weft::CompletionQueue queue = weft::CompletionQueue::Create();
  weft_completion_t ended[1];
  queue.Wake();
  EXPECT_EQ(queue.Wait(ended, 1), 0u);
  EXPECT_EQ(queue.Wait(ended, 1, std::chrono::milliseconds(1)), 0u);
  EXPECT_EQ(queue.Poll(ended, 1), 0u);
  EXPECT_GE(queue.Fd(), 0);
  EXPECT_THROW(queue.Wait(ended, 0), weft::Error);
  const weft::CompletionQueue moved = std::move(queue);
  EXPECT_EQ(moved.Pending(), 0u);
}

TEST(WrapperCompletionQueue, WorksSayWhyTheyFailed) {
  const std::vector<weft::Group> groups = weft::Group::Local(2);
  const weft::Work work = groups[0].Start().Barrier();
  EXPECT_EQ(work.ErrorInfo().result, WEFT_IN_PROGRESS);
  EXPECT_EQ(work.ErrorMessage(), "");
  groups[1].Abort("for a test");
  EXPECT_THROW(work.Wait(), weft::Error);
  std::thread([&] {
    EXPECT_EQ(work.ErrorInfo().result, WEFT_ABORTED);
    EXPECT_NE(work.ErrorMessage().find("for a test"), std::string::npos);
    EXPECT_STREQ(weft_last_error(), "");
  }).join();
}

}  // namespace
