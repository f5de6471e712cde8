// The simulator itself: what a protocol may believe of its processes and of its silences.
#include "tests/sim/sim_world.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"

namespace weft::test::sim_world_test {
namespace {

constexpr int64_t kMs = 1'000'000;
const Endpoint kEndpoint{.kind = Endpoint::Kind::kTcp, .host = "10.0.0.1", .port = 1};

// Sends a letter every 10 ms to whoever has connected, and notes when each comes from there.
class Talker {
 public:
  Talker(SimWorld* world, SimNode* node, bool listens) : world_(world), node_(node) {
    Endpoint endpoint = kEndpoint;
    if (listens) {
      listener_ = *node->Listen(&endpoint);
    } else {
      stream_ = *node->Connect(endpoint);
    }
    next_ns_ = world->now_ns();
    world->AddActor({node, [this] { Step(); }, [this] { return next_ns_; },
                     [this] {
                       return heard_.size() >= 100;
                     }});
  }

  const std::vector<int64_t>& heard() const { return heard_; }

  // The longest time without a letter.
  int64_t LongestSilenceNs() const {
    int64_t longest = 0;
    for (size_t i = 1; i < heard_.size(); ++i)
      longest = std::max(longest, heard_[i] - heard_[i - 1]);
    return longest;
  }

 private:
  void Step() {
    if (stream_ < 0) stream_ = *node_->Accept(listener_);
    if (stream_ < 0) {
      next_ns_ = world_->now_ns() + kMs;
      return;
    }
    char letter = 0;
    while (node_->Read(stream_, &letter, 1).state == IoState::kDone)
      heard_.push_back(world_->now_ns());
    if (world_->now_ns() < next_ns_) return;
    if (node_->Write(stream_, "x", 1).state == IoState::kDone) {
      next_ns_ = world_->now_ns() + 10 * kMs;
    } else {
      next_ns_ = world_->now_ns() + kMs;
    }
  }

  SimWorld* const world_;
  SimNode* const node_;
  int listener_ = -1;
  int stream_ = -1;
  int64_t next_ns_ = 0;
  std::vector<int64_t> heard_;
};

TEST(SimWorld, ADeathIsKnownOnTheMachineAndNowhereElse) {
  SimWorld world(1);
  SimNode* const node = world.AddNode();
  SimNode* const beside = world.AddNode(node);
  SimNode* const far = world.AddNode();
  EXPECT_EQ(node->Self().boot_id, beside->Self().boot_id);
  EXPECT_NE(node->Self().boot_id, far->Self().boot_id);
  auto seen = *beside->Open(node->pid(), node->Self().start_time);
  auto unseen = *far->Open(node->pid(), node->Self().start_time);
  auto younger = *beside->Open(node->pid(), node->Self().start_time + 1);
  EXPECT_FALSE(seen->Ended());
  EXPECT_TRUE(unseen->Ended()) << "that machine has no process of this number";
  EXPECT_TRUE(younger->Ended());
  world.KillAt(node, world.now_ns() + kMs, {.signal = 11});
  world.AddActor({beside, [] {}, [] { return int64_t{INT64_MAX}; },
                  [&] {
                    return seen->Ended();
                  }});
  EXPECT_TRUE(world.Run(world.now_ns() + 10 * kMs));
  EXPECT_EQ(seen->Exit().signal, 11);
}

TEST(SimWorld, AStoppedProcessHasNotEndedAndGoesOn) {
  SimWorld world(2);
  SimNode* const node = world.AddNode();
  SimNode* const beside = world.AddNode(node);
  const int64_t begin_ns = world.now_ns();
  int64_t last_ns = begin_ns;
  int64_t longest_ns = 0;
  int64_t next_ns = begin_ns;
  world.AddActor({node,
                  [&] {
                    longest_ns = std::max(longest_ns, world.now_ns() - last_ns);
                    last_ns = world.now_ns();
                    next_ns = last_ns + kMs;
                  },
                  [&] { return next_ns; },
                  [&] {
                    return last_ns > begin_ns + 500 * kMs;
                  }});
  const std::unique_ptr<PeerProcess> seen = *beside->Open(node->pid(), 0);
  std::set<ProcessState> states;
  int64_t next_look_ns = begin_ns;
  world.AddActor({beside,
                  [&] {
                    states.insert(seen->State());
                    next_look_ns = world.now_ns() + 10 * kMs;
                  },
                  [&] { return next_look_ns; },
                  [&] {
                    return last_ns > begin_ns + 500 * kMs;
                  }});
  world.StopBetween(node, begin_ns + 100 * kMs, begin_ns + 300 * kMs);
  EXPECT_TRUE(world.Run(begin_ns + 600 * kMs));
  EXPECT_EQ(states, (std::set<ProcessState>{ProcessState::kRunning, ProcessState::kStopped}));
  EXPECT_GE(longest_ns, 199 * kMs);
  EXPECT_LE(longest_ns, 205 * kMs);
  EXPECT_FALSE((*beside->Open(node->pid(), 0))->Ended());
}

TEST(SimWorld, ASilenceIsInOneDirectionAndNothingIsLost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimWorld world(seed);
    SimNode* const a = world.AddNode();
    SimNode* const b = world.AddNode();
    const Talker on_a(&world, a, true);
    const Talker on_b(&world, b, false);
    const int64_t from_ns = world.now_ns() + 300 * kMs;
    world.SilenceBetween(a, b, from_ns, from_ns + 2000 * kMs);
    ASSERT_TRUE(world.Run(world.now_ns() + 20'000 * kMs)) << "seed " << seed;
    EXPECT_GE(on_b.LongestSilenceNs(), 1500 * kMs) << "seed " << seed;
    EXPECT_LE(on_a.LongestSilenceNs(), 500 * kMs) << "seed " << seed;
  }
}

TEST(SimWorld, ASilenceForeverIsNoEndOfAConnection) {
  SimWorld world(3);
  SimNode* const a = world.AddNode();
  SimNode* const b = world.AddNode();
  const Talker on_a(&world, a, true);
  const Talker on_b(&world, b, false);
  const int64_t from_ns = world.now_ns() + 300 * kMs;
  world.SilenceBetween(a, b, from_ns, SimWorld::kForever);
  world.SilenceBetween(b, a, from_ns, SimWorld::kForever);
  world.KillAt(a, from_ns + 100 * kMs);
  EXPECT_FALSE(world.Run(from_ns + 5000 * kMs));
  EXPECT_GT(on_b.heard().size(), 0u);
  EXPECT_LT(on_b.heard().back(), from_ns + 200 * kMs);
}

// Both ends see a connection break; of what was under way all arrives, or nothing.
TEST(SimWorld, ABrokenConnectionDeliversWhatWasUnderWayAndACutOneDoesNot) {
  for (const bool cut : {false, true}) {
    int lost = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      SimWorld world(seed);
      SimNode* const a = world.AddNode();
      SimNode* const b = world.AddNode();
      Endpoint endpoint = kEndpoint;
      const int listener = *a->Listen(&endpoint);
      const int to = *b->Connect(endpoint);
      const int64_t broken_ns = world.now_ns() + 500 * kMs;
      int from = -1;
      size_t sent = 0;
      size_t heard = 0;
      bool over = false;
      world.AddActor({a,
                      [&] {
                        char letter = 0;
                        if (from < 0) from = *a->Accept(listener);
                        if (from < 0) return;
                        IoResult result = a->Read(from, &letter, 1);
                        for (; result.state == IoState::kDone; result = a->Read(from, &letter, 1))
                          ++heard;
                        over = over || result.state == IoState::kFailed;
                      },
                      [&] { return world.now_ns() + kMs; },
                      [&] {
                        return over && world.now_ns() > broken_ns + 500 * kMs;
                      }});
      world.AddActor({b,
                      [&] {
                        if (b->Write(to, "x", 1).state == IoState::kDone) ++sent;
                      },
                      [&] { return world.now_ns() + kMs; },
                      [&] {
                        return over;
                      }});
      cut ? world.CutSomeConnectionAt(broken_ns) : world.BreakSomeConnectionAt(broken_ns);
      ASSERT_TRUE(world.Run(broken_ns + 1000 * kMs)) << "seed " << seed;
      EXPECT_LE(heard, sent);
      lost += heard < sent ? 1 : 0;
    }
    if (cut) {
      EXPECT_GT(lost, 10);
    } else {
      EXPECT_EQ(lost, 0);
    }
  }
}

TEST(SimWorld, ALostMachineTakesAllItsProcessesAndAnotherOneCanComeInTheirPlace) {
  SimWorld world(5);
  SimNode* const node = world.AddNode();
  SimNode* const beside = world.AddNode(node);
  SimNode* const far = world.AddNode();
  SimNode* next = nullptr;
  world.KillMachineAt(beside, world.now_ns() + kMs);
  world.CallAt(world.now_ns() + 2 * kMs, [&] { next = world.AddNode(node); });
  world.AddActor({far, [] {}, [] { return int64_t{INT64_MAX}; },
                  [&] {
                    return next != nullptr;
                  }});
  ASSERT_TRUE(world.Run(world.now_ns() + 10 * kMs));
  EXPECT_FALSE(node->alive());
  EXPECT_FALSE(beside->alive());
  EXPECT_TRUE(far->alive());
  EXPECT_EQ(next->Self().boot_id, node->Self().boot_id);
  EXPECT_NE(next->pid(), node->pid());
  EXPECT_TRUE((*next->Open(node->pid(), node->Self().start_time))->Ended());
}

// Stepped only where something happens, actors hear the same; and those to whom nothing happens are left alone.
TEST(SimWorld, OnlyTouchedNodesAreStepped) {
  SimWorld world(6, SimWorld::Stepping::kTouched);
  SimNode* const a = world.AddNode();
  SimNode* const b = world.AddNode();
  SimNode* const idle = world.AddNode();
  const Talker on_a(&world, a, true);
  const Talker on_b(&world, b, false);
  int idle_steps = 0;
  world.AddActor({idle, [&] { ++idle_steps; }, [] { return int64_t{INT64_MAX}; },
                  [] {
                    return true;
                  }});
  ASSERT_TRUE(world.Run(world.now_ns() + 20'000 * kMs));
  EXPECT_GE(on_a.heard().size(), 100u);
  EXPECT_GE(on_b.heard().size(), 100u);
  EXPECT_EQ(idle_steps, 1);
}

TEST(SimWorld, AConnectionIsNotMadeAcrossASilence) {
  SimWorld world(4);
  SimNode* const a = world.AddNode();
  SimNode* const b = world.AddNode();
  const int64_t begin_ns = world.now_ns();
  world.SilenceBetween(b, a, begin_ns, begin_ns + 1000 * kMs);
  const Talker on_a(&world, a, true);
  const Talker on_b(&world, b, false);
  ASSERT_TRUE(world.Run(begin_ns + 20'000 * kMs));
  EXPECT_GE(on_a.heard().front(), begin_ns + 1000 * kMs);
}

}  // namespace
}  // namespace weft::test::sim_world_test
