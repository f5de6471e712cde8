// The agent with a clock of the test's and groups that say when they want to be looked at.
#include "comm/agent/agent.h"

#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/fd.h"

namespace weft::test {
namespace {

class HandClock : public Clock {
 public:
  int64_t NowNs() override { return now_ns; }

  int64_t now_ns = 1'000'000'000;
};

struct Group : public Watched {
  void AppendLifelines(std::vector<int>* all) const override {
    all->insert(all->end(), lifelines.begin(), lifelines.end());
  }

  int64_t Look(int64_t now_ns) override {
    looks.push_back(now_ns);
    if (during_look) during_look();
    return next_ns;
  }

  std::vector<int> lifelines;
  std::vector<int64_t> looks;
  int64_t next_ns = INT64_MAX;
  std::function<void()> during_look;
};

class AgentTest : public ::testing::Test {
 protected:
  std::shared_ptr<Group> AddGroup(std::vector<int> lifelines = {}) {
    auto group = std::make_shared<Group>();
    group->lifelines = std::move(lifelines);
    agent_.Add(group);
    return group;
  }

  HandClock clock_;
  PollSet set_;
  Agent agent_{clock_, set_};
};

TEST_F(AgentTest, LooksAtNobodyBeforeTheirTime) {
  EXPECT_EQ(agent_.Step(false), INT64_MAX) << "no groups";
  const auto group = AddGroup();
  EXPECT_EQ(agent_.Step(false), clock_.now_ns + Agent::kTickNs);
  EXPECT_TRUE(group->looks.empty());
  clock_.now_ns += Agent::kTickNs;
  EXPECT_EQ(agent_.Step(false), clock_.now_ns + Agent::kTickNs);
  EXPECT_EQ(group->looks, std::vector<int64_t>{clock_.now_ns});
}

TEST_F(AgentTest, LooksSoonerAtAGroupThatAsksForIt) {
  const auto hurried = AddGroup();
  const auto other = AddGroup();
  clock_.now_ns += Agent::kTickNs;
  hurried->next_ns = clock_.now_ns + 5;
  EXPECT_EQ(agent_.Step(false), clock_.now_ns + 5);
  clock_.now_ns += 5;
  hurried->next_ns = INT64_MAX;
  agent_.Step(false);
  EXPECT_EQ(hurried->looks.size(), 2u);
  EXPECT_EQ(other->looks.size(), 1u);
}

TEST_F(AgentTest, LooksAtAllGroupsAfterAnEvent) {
  const auto one = AddGroup();
  const auto other = AddGroup();
  agent_.Step(true);
  EXPECT_EQ(one->looks.size(), 1u);
  EXPECT_EQ(other->looks.size(), 1u);
  agent_.Hurry();
  agent_.Step(false);
  EXPECT_EQ(one->looks.size(), 2u);
}

TEST_F(AgentTest, HasADescriptorInTheSetAsLongAsAGroupHasIt) {
  ASSERT_TRUE(set_.Open().ok());
  const UniqueFd lifeline(eventfd(0, EFD_NONBLOCK));
  const auto one = AddGroup({lifeline.get()});
  const auto other = AddGroup({lifeline.get()});
  ASSERT_EQ(eventfd_write(lifeline.get(), 1), 0);
  EXPECT_TRUE(set_.Take());
  EXPECT_EQ(agent_.Remove(one.get()).get(), one.get());
  ASSERT_TRUE(set_.Add(lifeline.get())) << "it has said so, and is there";
  EXPECT_TRUE(set_.Take());
  EXPECT_EQ(agent_.Remove(other.get()).get(), other.get());
  EXPECT_EQ(agent_.Remove(other.get()), nullptr);
  ASSERT_EQ(eventfd_write(lifeline.get(), 1), 0);
  EXPECT_FALSE(set_.Take());
}

TEST_F(AgentTest, AllowsAGroupToRemoveAndAddOthersWhileItIsLookedAt) {
  const auto first = AddGroup();
  auto second = AddGroup();
  std::shared_ptr<Group> third;
  first->during_look = [&] {
    agent_.Remove(second.get());
    if (third == nullptr) third = AddGroup();
    EXPECT_EQ(agent_.Step(true), clock_.now_ns) << "somebody steps; the event is not forgotten";
  };
  agent_.Step(true);
  first->during_look = nullptr;
  agent_.Step(false);
  EXPECT_EQ(first->looks.size(), 2u);
  EXPECT_EQ(third->looks.size(), 1u);
  std::weak_ptr<Group> gone = second;
  second.reset();
  EXPECT_TRUE(gone.expired()) << "the agent keeps nothing that was removed";
}

}  // namespace
}  // namespace weft::test
