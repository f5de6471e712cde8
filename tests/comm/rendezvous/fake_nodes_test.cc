#include "comm/rendezvous/fake_nodes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"

namespace weft::test::fake_nodes_test {
namespace {

std::vector<int> NodesOf(std::string_view nodes, int size) {
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank)
    all.push_back(FakeNodeOf(nodes, rank, size).value());
  return all;
}

TEST(FakeNodes, ANumberOfNodesTakesTheRanksInOrder) {
  EXPECT_EQ(NodesOf("1", 3), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(NodesOf("2", 4), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(NodesOf("3", 8), (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(NodesOf("4", 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(NodesOf("4", 2), (std::vector<int>{0, 1})) << "no more than ranks";
}

TEST(FakeNodes, EachRankMayHaveItsNode) {
  EXPECT_EQ(NodesOf("0,0,0,1", 4), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(NodesOf("0,1,0,1", 4), (std::vector<int>{0, 1, 0, 1}));
}

TEST(FakeNodes, NoneByDefault) {
  EXPECT_EQ(NodesOf("", 2), (std::vector<int>{-1, -1}));
}

TEST(FakeNodes, WhatMeansNothingIsRefusedWithASentence) {
  for (const char* const nodes :
       {"0", "-1", "two", "0,1", "0,1,2,x", "0,1,2,-1", "0,1,2,3,4", "2,"}) {
    const absl::Status refused = FakeNodeOf(nodes, 0, 4).status();
    EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT) << nodes;
    EXPECT_NE(std::string(refused.message()).find(std::string("WEFT_FAKE_NODES=") + nodes),
              std::string::npos);
  }
}

}  // namespace
}  // namespace weft::test::fake_nodes_test
