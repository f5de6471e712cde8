// Collectives with several counts when the ranks disagree, and algorithms that cannot be had.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/group/block_layout.h"
#include "rank_threads.h"

namespace weft::test::block_failure_test {
namespace {

GroupOptions Options() {
  return {.name = "dp", .timeout_ns = 20'000'000'000};
}

// A call with its counts, buffers large enough for anything here.
struct Call {
  std::vector<char> in = std::vector<char>(1 << 20);
  std::vector<char> out = std::vector<char>(1 << 20);
  std::shared_ptr<BlockLayout> layout = std::make_shared<BlockLayout>();
  Collective collective;

  Collective* Prepare(OpKind kind) {
    collective = {.kind = kind, .dtype = WEFT_INT32, .layout = layout};
    collective.in = in.data();
    collective.out = out.data();
    return &collective;
  }
};

std::string ExpectMismatch(ProcessGroup& group, const Collective& call, std::string* said) {
  if (!CheckCollective(call, group.rank(), group.size()).ok()) return "the call is refused";
  const absl::Status status = group.Run(call);
  *said = std::string(status.message());
  return ResultOf(status) == WEFT_MISMATCH ? "" : "got: " + *said;
}

void ExpectSameSentence(const std::vector<std::string>& said,
                        const std::vector<std::string>& words) {
  for (const std::string& sentence : said) {
    EXPECT_EQ(sentence, said[0]);
    for (const std::string& word : words)
      EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
  }
}

class BlockDisagreement : public testing::TestWithParam<int> {};

// The last rank expects one element less from rank 0 than that sends, small and large.
TEST_P(BlockDisagreement, OfAPairIsNamedOnEveryRank) {
  const int size = GetParam();
  for (const size_t count : {7UL, 20000UL}) {
    std::vector<std::string> said(static_cast<size_t>(size));
    EXPECT_EQ(RunThreadRanks(size, Options(),
                             [&](ProcessGroup& group) -> std::string {
                               Call call;
                               Collective* const c = call.Prepare(OpKind::kAllToAllV);
                               std::vector<size_t> in(static_cast<size_t>(size), count);
                               std::vector<size_t> out(in);
                               if (group.rank() == size - 1) --out[0];
                               const absl::Status laid =
                                   LayOutBlocks({in.data(), nullptr}, {out.data(), nullptr},
                                                group.rank(), size, call.layout.get(), c);
                               if (!laid.ok()) return std::string(laid.message());
                               return ExpectMismatch(group, *c,
                                                     &said[static_cast<size_t>(group.rank())]);
                             }),
              "");
    ExpectSameSentence(said, {"all_to_all_v #1 on group dp: rank 0 sends " + std::to_string(count) +
                              " int32 to rank " + std::to_string(size - 1) + ", which expects " +
                              std::to_string(count - 1)});
  }
}

// The root expects more from the last rank than that has.
TEST_P(BlockDisagreement, WithTheRootIsNamedOnEveryRank) {
  const int size = GetParam();
  std::vector<std::string> said(static_cast<size_t>(size));
  EXPECT_EQ(RunThreadRanks(
                size, Options(),
                [&](ProcessGroup& group) -> std::string {
                  Call call;
                  Collective* const c = call.Prepare(OpKind::kGatherV);
                  const size_t own = group.rank() == size - 1 ? 5 : 9;
                  const std::vector<size_t> counts(static_cast<size_t>(size), 9);
                  const absl::Status laid = LayOutBlocks({&own, nullptr}, {counts.data(), nullptr},
                                                         group.rank(), size, call.layout.get(), c);
                  if (!laid.ok()) return std::string(laid.message());
                  return ExpectMismatch(group, *c, &said[static_cast<size_t>(group.rank())]);
                }),
            "");
  ExpectSameSentence(
      said, {"rank " + std::to_string(size - 1) + " sends 5 int32 to rank 0, which expects 9"});
}

// The same total, cut differently.
TEST_P(BlockDisagreement, OfACutIsFound) {
  const int size = GetParam();
  for (const OpKind kind : {OpKind::kAllGatherV, OpKind::kReduceScatterV, OpKind::kAllReduceIov}) {
    std::vector<std::string> said(static_cast<size_t>(size));
    EXPECT_EQ(RunThreadRanks(
                  size, Options(),
                  [&](ProcessGroup& group) -> std::string {
                    Call call;
                    Collective* const c = call.Prepare(kind);
                    std::vector<size_t> counts(static_cast<size_t>(size), 100);
                    if (group.rank() == size - 1) {
                      ++counts[0];
                      --counts[1];
                    }
                    absl::Status laid;
                    if (kind == OpKind::kAllReduceIov) {
                      const weft_iov_t parts[2] = {
                          {call.in.data(), call.out.data(), counts[0]},
                          {call.in.data() + 4096, call.out.data() + 4096, counts[1]}};
                      laid = LayOutParts(parts, 2, call.layout.get(), c);
                    } else {
                      const Blocks blocks{counts.data(), nullptr};
                      laid = LayOutBlocks(blocks, blocks, group.rank(), size, call.layout.get(), c);
                    }
                    if (!laid.ok()) return std::string(laid.message());
                    return ExpectMismatch(group, *c, &said[static_cast<size_t>(group.rank())]);
                  }),
              "");
    ExpectSameSentence(said, {OpKindName(kind), "with counts ", "with other counts (signature "});
  }
}

TEST_P(BlockDisagreement, OfAlgorithmsIsNamed) {
  const int size = GetParam();
  std::vector<std::string> said(static_cast<size_t>(size));
  EXPECT_EQ(RunThreadRanks(size, Options(),
                           [&](ProcessGroup& group) -> std::string {
                             Call call;
                             Collective* const c = call.Prepare(OpKind::kAllReduce);
                             c->layout = nullptr;
                             c->count = 64;
                             if (group.rank() == 0) c->algorithm = Protocol::kStaged;
                             return ExpectMismatch(group, *c,
                                                   &said[static_cast<size_t>(group.rank())]);
                           }),
            "");
  ExpectSameSentence(said, {"by staged"});
}

// What cannot be had is refused on all ranks, and the group works on.
TEST_P(BlockDisagreement, ImpossibleAlgorithmsAreRefusedAndTheGroupWorksOn) {
  const int size = GetParam();
  EXPECT_EQ(
      RunThreadRanks(size, Options(),
                     [&](ProcessGroup& group) -> std::string {
                       Call call;
                       Collective* const c = call.Prepare(OpKind::kAllReduce);
                       c->layout = nullptr;
                       c->count = 5000;
                       for (const Protocol algorithm : {Protocol::kInline, Protocol::kSlot,
                                                        Protocol::kDirect, Protocol::kSingleCopy}) {
                         for (const bool asynchronous : {false, true}) {
                           c->algorithm = algorithm;
                           absl::Status status;
                           if (asynchronous) {
                             auto work = group.Start(*c);
                             status = work.ok() ? (*work)->Wait(0) : work.status();
                           } else {
                             status = group.Run(*c);
                           }
                           if (ResultOf(status) != WEFT_UNSUPPORTED) {
                             return "got: " + std::string(status.message());
                           }
                         }
                       }
                       c->algorithm = Protocol::kAuto;
                       const absl::Status status = group.Run(*c);
                       return status.ok() ? "" : std::string(status.message());
                     }),
      "");
}

INSTANTIATE_TEST_SUITE_P(RankSet, BlockDisagreement, ::testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace weft::test::block_failure_test
