// The agent with a clock of the test's and groups that say when they want to be looked at.
#include "comm/agent/agent.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "waits.h"

namespace weft::test::agent_test {
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

  void AppendPollItems(std::vector<PollItem>* all) const override {
    all->insert(all->end(), items.begin(), items.end());
  }

  std::optional<ProcessWait> Wait() const override { return wait; }

  void Show(const std::optional<ProcessWait>& shown_wait) override { shown.push_back(shown_wait); }

  std::optional<ProcessWait> Read(const ProcessName& process) const override {
    const auto found = others.find(process.pid);
    return found == others.end() ? std::nullopt : std::optional(found->second);
  }

  std::vector<int> lifelines;
  std::vector<PollItem> items;
  std::vector<int64_t> looks;
  std::optional<ProcessWait> wait;
  std::vector<std::optional<ProcessWait>> shown;
  std::map<int32_t, ProcessWait> others;  // what processes of the group show
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

TEST_F(AgentTest, HearsOfAGroupsSocketsAgainAfterEachLook) {
  ASSERT_TRUE(set_.Open().ok());
  const UniqueFd socket(eventfd(1, EFD_NONBLOCK));
  const auto group = AddGroup();
  EXPECT_FALSE(set_.Take());
  group->items = {{.handle = socket.get(), .want_read = true}};
  agent_.Step(true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(set_.Take());
    EXPECT_FALSE(set_.Take());
    agent_.Step(true);
  }
  EXPECT_EQ(group->looks.size(), 4u);
  group->items[0] = {.handle = socket.get(), .want_write = true};
  ASSERT_EQ(eventfd_write(socket.get(), UINT64_MAX - 2), 0) << "it is full";
  agent_.Step(true);
  EXPECT_FALSE(set_.Take());
  uint64_t count = 0;
  ASSERT_EQ(read(socket.get(), &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  EXPECT_TRUE(set_.Take());
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
  EXPECT_GE(third->looks.size(), 1u);
  std::weak_ptr<Group> gone = second;
  second.reset();
  EXPECT_TRUE(gone.expired()) << "the agent keeps nothing that was removed";
}

// The warnings of a test.
class Warnings {
 public:
  Warnings() {
    SetLogCallback([](weft_log_level_t, const char* message,
                      void* self) { static_cast<Warnings*>(self)->lines.emplace_back(message); },
                   this);
  }

  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  ~Warnings() { SetLogCallback(nullptr, nullptr); }

  std::vector<std::string> lines;
};

TEST_F(AgentTest, ShowsTheOldestWaitToAllGroups) {
  const auto one = AddGroup();
  const auto other = AddGroup();
  agent_.Step(true);
  EXPECT_TRUE(one->shown.empty()) << "nothing waits";
  one->wait = WaitOf(1, {2});
  one->wait->since_ns = 20;
  other->wait = WaitOf(1, {3});
  other->wait->since_ns = 10;
  agent_.Step(true);
  one->wait.reset();
  other->wait.reset();
  agent_.Step(true);
  agent_.Step(true);
  for (const auto& group : {one, other}) {
    ASSERT_EQ(group->shown.size(), 2u) << "the end is shown once";
    ASSERT_TRUE(group->shown[0].has_value());
    EXPECT_EQ(group->shown[0]->awaited[0].pid, 3);
    EXPECT_FALSE(group->shown[1].has_value());
  }
}

TEST_F(AgentTest, ReportsACycleOnceWhenItHasStood) {
  const Warnings warnings;
  const auto group = AddGroup();
  const auto other = AddGroup();
  group->wait = WaitOf(1, {2});
  other->others[2] = WaitOf(2, {1});
  agent_.Step(true);
  agent_.Step(true);
  EXPECT_TRUE(warnings.lines.empty());
  other->others[2].version = 77;  // it waits in something else by now
  agent_.Step(true);
  agent_.Step(true);
  EXPECT_TRUE(warnings.lines.empty());
  for (int i = 0; i < 5; ++i)
    agent_.Step(true);
  EXPECT_TRUE(warnings.lines.empty()) << "what others show may be older than that";
  clock_.now_ns += Agent::kCycleNs;
  other->others[2].looks += Agent::kCycleShows - 1;
  for (int i = 0; i < 5; ++i)
    agent_.Step(true);
  EXPECT_TRUE(warnings.lines.empty()) << "the other one may be stopped, and show an old wait";
  ++other->others[2].looks;
  for (int i = 0; i < 5; ++i)
    agent_.Step(true);
  ASSERT_EQ(warnings.lines.size(), 1u);
  EXPECT_NE(warnings.lines[0].find("CROSS_GROUP_DEADLOCK: pid 1, "), std::string::npos);
}

}  // namespace
}  // namespace weft::test::agent_test
