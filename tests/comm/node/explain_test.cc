// What is said of a call with and without a group.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/node/explain_without_group.h"
#include "comm/node/make_group.h"
#include "comm/node/segment.h"

namespace weft::test::explain_test {
namespace {

std::vector<Collective> Calls() {
  std::vector<Collective> calls;
  for (int kind = 0; kind < static_cast<int>(OpKind::kAllGatherV); ++kind) {
    for (const size_t count : {0, 1, 12, 1000, 100'003, 1 << 24}) {
      calls.push_back({.kind = static_cast<OpKind>(kind), .dtype = WEFT_FLOAT32, .count = count});
    }
  }
  return calls;
}

TEST(ExplainWithoutGroup, SaysWhatAGroupSays) {
  for (const int ranks : {1, 2, 3, 8}) {
    auto groups = CreateLocalGroups(ranks, {.name = "explained"});
    ASSERT_TRUE(groups.ok()) << groups.status();
    for (const Collective& call : Calls()) {
      for (const BufferKind buffers :
           {BufferKind::kPrivate, BufferKind::kSymmetric, BufferKind::kShared}) {
        const absl::StatusOr<std::string> text = ExplainWithoutGroup(call, buffers, ranks);
        ASSERT_TRUE(text.ok()) << text.status();
        EXPECT_EQ(*text, (*groups)[0]->Explain(call, buffers));
      }
    }
    for (const auto& group : *groups)
      group->Close();
  }
}

TEST(ExplainWithoutGroup, TellsWhatRejectedChoicesWouldTake) {
  const Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1 << 20};
  const absl::StatusOr<std::string> text = ExplainWithoutGroup(call, BufferKind::kSymmetric, 2);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("algorithm: direct\n"), std::string::npos) << *text;
  EXPECT_NE(text->find("\nnot staged: direct comes first; predicted "), std::string::npos) << *text;
}

TEST(ExplainWithoutGroup, RefusesNumbersOfRanksThatNoNodeHas) {
  for (const int ranks : {-1, 0, kNodeRanksMax + 1}) {
    const auto text = ExplainWithoutGroup({.kind = OpKind::kBarrier}, BufferKind::kPrivate, ranks);
    EXPECT_EQ(ResultOf(text.status()), WEFT_INVALID_ARGUMENT) << ranks;
  }
}

}  // namespace
}  // namespace weft::test::explain_test
