// The protocol of comm/node, in all interleavings of few ranks with short sequences of operations and small rings,
// and in random ones of longer sequences. docs/design/003-node.md says why nothing is overwritten too early; here
// it is tried. So that the search is known to see something, each rule is left out once: then it must find what
// that breaks.
#include "protocol_model.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <ostream>
#include <random>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol_explorer.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::protocol_model_test {
namespace {

// Every so many of the sequences are tried. Shares no factor with kFormCount, so that all forms come first at times.
size_t Stride() {
#ifdef WEFT_SANITIZE
  return 37;
#else
  return AllCasesWanted() ? 1 : 5;
#endif
}

uint32_t OneOf(std::mt19937_64& random, std::initializer_list<uint32_t> values) {
  return values.begin()[random() % values.size()];
}

// What is not the form: rounds, roots, which ranks stage early and which ones wait for an operation to end.
ModelOperation OperationOf(Form form, int ranks, std::mt19937_64& random) {
  const auto any = static_cast<uint32_t>(random());
  return {.form = form,
          .root = static_cast<int>(random() % static_cast<uint64_t>(ranks)),
          .rounds = static_cast<int>(OneOf(random, {1, 1, 2, 2, 3, 3, 4, kModelRoundsMax})),
          .eager_ranks = OneOf(random, {~0U, ~0U, 0, any}),
          .async_ranks = OneOf(random, {~0U, ~0U, ~0U, 0, any >> 8}),
          .shared_ranks = OneOf(random, {0, 0, 0, ~0U, any >> 16})};
}

size_t SequencesOf(int length) {
  size_t count = 1;
  for (int i = 0; i < length; ++i)
    count *= kFormCount;
  return count;
}

// The index-th of all sequences of so many forms; the rest is drawn from the index.
ModelWorld SequenceWorld(int ranks, int length, size_t index, bool counts_arrivals) {
  std::mt19937_64 random(index);
  ModelWorld world{.ranks = ranks,
                   .window = 2 + static_cast<int>(random() % 2),
                   .parts = 3 + static_cast<int>(random() % 2),
                   .counts_arrivals = counts_arrivals};
  size_t forms = index;
  for (int i = 0; i < length; ++i, forms /= kFormCount)
    world.operations.push_back(OperationOf(static_cast<Form>(forms % kFormCount), ranks, random));
  world.turns = ranks == 2 && random() % 2 == 0;
  for (ModelOperation& operation : world.operations)
    operation.wide = random() % 2 == 0;
  return world;
}

// The states seen in every `stride`-th sequence; a failure at the first problem.
size_t ExploreSequences(int ranks, int length, size_t stride, bool counts_arrivals) {
  size_t states = 0;
  for (size_t index = 0; index < SequencesOf(length); index += stride) {
    const Exploration all =
        ExploreAll(ProtocolModel(SequenceWorld(ranks, length, index, counts_arrivals)));
    states += all.states;
    if (all.problem.empty()) continue;
    ADD_FAILURE() << all.problem;
    break;
  }
  std::printf("%d ranks, %d operations: %zu of %zu sequences\n", ranks, length,
              (SequencesOf(length) + stride - 1) / stride, SequencesOf(length));
  ::testing::Test::RecordProperty("states", std::to_string(states));
  return states;
}

// Whether the ranks outnumber their CPUs, and count their arrivals at one word.
class Protocol : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Protocol, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ThatCountArrivals" : "WithACpuEach");
});

TEST_P(Protocol, TwoRanksDoEverySequenceOfThreeInAllInterleavings) {
  EXPECT_GT(ExploreSequences(2, 3, Stride(), GetParam()), SequencesOf(3) / Stride());
}

TEST_P(Protocol, TwoRanksDoLongerSequencesInAllInterleavings) {
  EXPECT_GT(ExploreSequences(2, 5, 97 * Stride(), GetParam()), SequencesOf(5) / 97 / Stride());
}

TEST_P(Protocol, ThreeRanksDoEveryPairInAllInterleavings) {
  EXPECT_GT(ExploreSequences(3, 2, Stride(), GetParam()), SequencesOf(2) / Stride());
}

TEST_P(Protocol, ThreeRanksDoLongerSequencesInAllInterleavings) {
  EXPECT_GT(ExploreSequences(3, 3, 17 * Stride(), GetParam()), SequencesOf(3) / 17 / Stride());
}

// The problem that random runs of long sequences find, "" if none.
std::string WalkLongSequences(uint64_t seed, size_t walks, Rule left_out, bool counts_arrivals) {
  for (size_t walk = 0; walk < walks; ++walk) {
    std::mt19937_64 random(seed + walk);
    ModelWorld world{.ranks = 2 + static_cast<int>(random() % (kModelRanksMax - 1)),
                     .window = 2 + static_cast<int>(random() % (kModelWindowMax - 1)),
                     .slots = 1 + static_cast<int>(random() % kModelSlotsMax),
                     .parts = 3 + static_cast<int>(random() % 2),
                     .counts_arrivals = counts_arrivals,
                     .left_out = left_out};
    const size_t length = 10 + random() % (kModelOperationsMax - 10);
    while (world.operations.size() < length) {
      const auto form = static_cast<Form>(random() % kFormCount);
      world.operations.push_back(OperationOf(form, world.ranks, random));
    }
    world.turns = world.ranks == 2 && random() % 2 == 0;
    for (ModelOperation& operation : world.operations)
      operation.wide = random() % 2 == 0;
    const Exploration run = WalkAtRandom(ProtocolModel(world), seed + walk);
    if (!run.problem.empty()) return run.problem;
  }
  return "";
}

TEST_P(Protocol, ManyRanksDoLongSequencesInRandomInterleavings) {
  const uint64_t seed = TestSeed(5);
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_EQ(WalkLongSequences(seed, 4000 / Stride(), Rule::kNone, GetParam()), "");
}

struct LeftOut {
  Rule rule;
  std::string_view found;        // what the problem says, if it can only be one
  bool counts_arrivals = false;  // left out by ranks that count their arrivals at one word
};

void PrintTo(const LeftOut& left_out, std::ostream* out) {
  *out << RuleName(left_out.rule);
}

class LeftOutRule : public ::testing::TestWithParam<LeftOut> {};

TEST_P(LeftOutRule, IsFoundInAllInterleavings) {
  std::string problem;
  for (size_t index = 0; index < SequencesOf(3) && problem.empty(); ++index) {
    ModelWorld world =
        SequenceWorld(2, 4, index, GetParam().counts_arrivals);  // the fourth is inline
    world.left_out = GetParam().rule;
    problem = ExploreAll(ProtocolModel(world)).problem;
  }
  ASSERT_NE(problem, "");
  EXPECT_THAT(problem, ::testing::HasSubstr(std::string(GetParam().found)));
}

TEST_P(LeftOutRule, IsFoundInRandomInterleavings) {
  const uint64_t seed = TestSeed(5);
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_NE(WalkLongSequences(seed, 5000, GetParam().rule, GetParam().counts_arrivals), "");
}

// A rank that stages too far ahead may make all wait for each other before anything is overwritten, and a
// count that lags may be noticed at the end only.
INSTANTIATE_TEST_SUITE_P(
    EachRule, LeftOutRule,
    ::testing::Values(
        LeftOut{Rule::kWindowCredit, "the line"}, LeftOut{Rule::kSlotCredit, "the slot"},
        LeftOut{Rule::kOwnProgress, "the line"}, LeftOut{Rule::kDoneAfterReading, "the line"},
        LeftOut{Rule::kOlderPartCredit, "the part"}, LeftOut{Rule::kCopyPartCredit, "the part"},
        LeftOut{Rule::kReducePartCredit, ""}, LeftOut{Rule::kPingPongPartCredit, ""},
        LeftOut{Rule::kEarlyOnlyIfFirst, ""}, LeftOut{Rule::kEarlyOnlyIfFree, "the part"},
        LeftOut{Rule::kOneRoundAhead, ""}, LeftOut{Rule::kAwaitStaged, "the part"},
        LeftOut{Rule::kAwaitReduced, "the result"}, LeftOut{Rule::kRootedCountsStaged, ""},
        LeftOut{Rule::kRootedSaysStaged, "at the end"}, LeftOut{Rule::kDirectWait, "the buffer"},
        LeftOut{Rule::kTurnOrder, "the result"}, LeftOut{Rule::kAwaitWriters, "the result"},
        LeftOut{Rule::kWakeBeforeSleep, "deadlock"}),
    [](const auto& info) { return std::string(RuleName(info.param.rule)); });

// Those of the arrival counter, and those that protect what the last arriver reduces as well.
INSTANTIATE_TEST_SUITE_P(
    EachRuleOfTheArrivalCounter, LeftOutRule,
    ::testing::Values(LeftOut{Rule::kWindowCredit, "", true}, LeftOut{Rule::kSlotCredit, "", true},
                      LeftOut{Rule::kOwnProgress, "", true},
                      LeftOut{Rule::kDoneAfterReading, "", true},
                      LeftOut{Rule::kLastReduces, "", true},
                      LeftOut{Rule::kAwaitCounter, "the last arriver's result", true},
                      LeftOut{Rule::kWakeAll, "deadlock", true}),
    [](const auto& info) { return std::string(RuleName(info.param.rule)); });

}  // namespace
}  // namespace weft::test::protocol_model_test
