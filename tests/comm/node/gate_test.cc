#include "comm/node/gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::gate_test {
namespace {

TEST(Gate, TurnsAwayWhoComesAfterItWasClosed) {
  EventCount left;
  Gate gate(left);
  EXPECT_TRUE(gate.Enter());
  EXPECT_FALSE(gate.empty());
  gate.Close();
  EXPECT_FALSE(gate.Enter());
  EXPECT_FALSE(gate.empty()) << "the first visitor is still inside";
  gate.Leave();
  EXPECT_TRUE(gate.empty());
  EXPECT_FALSE(Visit(gate).inside());
  EXPECT_TRUE(gate.empty());
}

TEST(Gate, IsLeftAtTheEndOfAVisit) {
  EventCount left;
  Gate gate(left);
  {
    const Visit visit(gate);
    EXPECT_TRUE(visit.inside());
    EXPECT_FALSE(gate.empty());
  }
  EXPECT_TRUE(gate.empty());
}

// What a group relies on when it frees its segment.
TEST(Gate, HasNobodyInsideOnceItIsClosedAndEmpty) {
  for (int round = 0; round < 200; ++round) {
    EventCount left;
    Gate gate(left);
    std::atomic<bool> freed{false};
    std::vector<std::thread> visitors;
    for (int i = 0; i < 3; ++i) {
      visitors.emplace_back([&] {
        while (true) {
          const Visit visit(gate);
          if (!visit.inside()) return;
          EXPECT_FALSE(freed.load(std::memory_order_seq_cst));
        }
      });
    }
    gate.Close();
    Deadline patience{30'000'000'000};
    WaitUntil(
        left, WaitPolicy{.spins = 0, .yields = 0}, patience, [&] { return gate.empty(); },
        [] { return false; });
    freed.store(true, std::memory_order_seq_cst);
    for (std::thread& visitor : visitors)
      visitor.join();
  }
}

TEST(Gate, IsClosedInAForkedChild) {
  EventCount left;
  Gate gate(left);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(!gate.here() && !gate.Enter() && gate.empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(gate.Enter());
  gate.Leave();
}

}  // namespace
}  // namespace weft::gate_test
