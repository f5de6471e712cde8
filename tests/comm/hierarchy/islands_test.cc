#include "comm/hierarchy/islands.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"

namespace weft::test::islands_test {
namespace {

Membership MembersOn(const std::vector<std::pair<std::string, int>>& places) {
  Membership membership;
  for (const auto& [boot_id, fake_node] : places) {
    const auto rank = static_cast<int32_t>(membership.members.size());
    membership.members.push_back({.rank = rank,
                                  .world_rank = rank,
                                  .pid = 100 + rank,
                                  .host = boot_id,
                                  .boot_id = boot_id,
                                  .fake_node = fake_node,
                                  .agent = StrCat("tcp:127.0.0.1:", 1000 + rank)});
  }
  return membership;
}

TEST(Islands, RanksOfAMachineShareOne) {
  const Islands islands = IslandsOf(MembersOn({{"b", -1}, {"a", -1}, {"b", -1}, {"a", -1}}));
  EXPECT_EQ(islands.ranks, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(islands.island_of, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(islands.PlaceOf(0), 0);
  EXPECT_EQ(islands.PlaceOf(3), 1);
}

TEST(Islands, FakeNodesDivideAMachine) {
  const Islands islands = IslandsOf(MembersOn({{"a", 1}, {"a", 0}, {"a", 0}, {"b", 0}}));
  EXPECT_EQ(islands.ranks, (std::vector<std::vector<int>>{{0}, {1, 2}, {3}}));
}

TEST(Islands, RanksThatDoNotKnowEachOthersPidsShareNone) {
  Membership members = MembersOn({{"a", -1}, {"a", -1}, {"a", -1}});
  members.members[1].pid_namespace = 7;
  EXPECT_EQ(IslandsOf(members).ranks, (std::vector<std::vector<int>>{{0, 2}, {1}}));
}

TEST(Islands, RanksThatDoNotFindEachOthersSocketsShareNone) {
  Membership members = MembersOn({{"a", -1}, {"a", -1}, {"a", -1}, {"a", -1}});
  members.members[1].network_namespace = 7;
  members.members[3].network_namespace = 7;
  EXPECT_EQ(IslandsOf(members).ranks, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
}

TEST(Islands, RanksOfSeveralUsersShareNone) {
  Membership members = MembersOn({{"a", -1}, {"a", -1}, {"a", -1}});
  members.members[2].uid = 1000;
  EXPECT_EQ(IslandsOf(members).ranks, (std::vector<std::vector<int>>{{0, 1}, {2}}));
}

TEST(Islands, TooManyRanksOnOneAreRefused) {
  const Membership members = MembersOn(std::vector<std::pair<std::string, int>>(65, {"a", -1}));
  const auto map = MapOf(members, IslandsOf(members));
  EXPECT_EQ(ResultOf(map.status()), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(map.status().message()).find("at most 64"), std::string::npos);
}

TEST(Islands, AgentsGetTheMapWithAddresses) {
  const Membership members = MembersOn({{"a", 0}, {"a", 1}, {"a", 0}});
  const auto map = MapOf(members, IslandsOf(members));
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ((*map)->island_count(), 2);
  EXPECT_EQ((*map)->rank_count(), 3);
  EXPECT_EQ((*map)->store_island(), 0);
  EXPECT_EQ((*map)->RanksOf(0), (std::vector<int>{0, 2}));
  EXPECT_EQ((*map)->island(1).processes[0].pid, 101);
  EXPECT_EQ((*map)->island(1).processes[0].endpoint.port, 1001);
}

TEST(Islands, AMemberWithoutAnAddressIsNamed) {
  Membership members = MembersOn({{"a", 0}, {"a", 1}});
  members.members[1].agent = "somewhere";
  const auto map = MapOf(members, IslandsOf(members));
  EXPECT_EQ(ResultOf(map.status()), WEFT_CORRUPT);
  EXPECT_EQ(FieldsOf(map.status()).rank, 1);
}

}  // namespace
}  // namespace weft::test::islands_test
