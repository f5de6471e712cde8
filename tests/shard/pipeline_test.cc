// Schedules of pipelines: that those with a name do what they promise, and that the proof finds
// what is wrong.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "shard/pipeline/pipeline_json.h"
#include "shard/pipeline/pipeline_kinds.h"
#include "shard/pipeline/pipeline_svg.h"
#include "shard/pipeline/simulate_pipeline.h"
#include "shard/pipeline/verify_pipeline.h"

namespace weft {
namespace {

using enum PipelineActionKind;

PipelineSchedule Built(PipelineKind kind, const PipelineShape& shape) {
  absl::StatusOr<PipelineSchedule> schedule = BuildPipeline(kind, shape);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

std::string NameOfCase(PipelineKind kind, const PipelineShape& shape) {
  return std::string(NameOf(kind)) + ", " + std::to_string(shape.ranks) + " ranks, " +
         std::to_string(shape.microbatches) + " micro-batches, " + std::to_string(shape.chunks) +
         " chunks";
}

// Every kind with every shape that it can have, to 8 ranks, 32 micro-batches and 4 chunks.
template <typename Body>
void ForAllShapes(const Body& body) {
  for (const PipelineKind kind : kPipelineKinds) {
    for (int ranks = 1; ranks <= 8; ranks++) {
      for (int microbatches = 1; microbatches <= 32; microbatches++) {
        for (int chunks = 1; chunks <= 4; chunks++) {
          const PipelineShape shape = {ranks, microbatches, chunks};
          if (!BuildPipeline(kind, shape).ok()) continue;
          SCOPED_TRACE(NameOfCase(kind, shape));
          body(kind, shape);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(Pipeline, EveryKindIsProvedWithEveryShape) {
  int shapes = 0;
  ForAllShapes([&](PipelineKind kind, const PipelineShape& shape) {
    const absl::StatusOr<PipelineProof> proof = VerifyPipeline(Built(kind, shape));
    ASSERT_TRUE(proof.ok()) << proof.status();
    // Both ways between two stages that are on different ranks.
    const int crossings = shape.ranks == 1 ? 0 : shape.ranks * shape.chunks - 1;
    EXPECT_EQ(proof->messages, 2 * shape.microbatches * crossings);
    shapes++;
  });
  EXPECT_EQ(shapes, 4 * 8 * 32 + 4 * (32 + 16 + 10 + 8 + 6 + 5 + 4 + 4));
}

// What is kept: Narayanan et al. 2021, section 2.2; Qi et al. 2023, table 2.
TEST(Pipeline, KeepsAsManyMicroBatchesAsTheoryHas) {
  ForAllShapes([](PipelineKind kind, const PipelineShape& shape) {
    const std::vector<int> peak = VerifyPipeline(Built(kind, shape))->peak_activations;
    for (int rank = 0; rank < shape.ranks; rank++) {
      int expected = 1;
      if (kind == PipelineKind::kGpipe) expected = shape.microbatches;
      if (kind == PipelineKind::kOneForwardOneBackward)
        expected = std::min(shape.ranks - rank, shape.microbatches);
      if (kind == PipelineKind::kZeroBubbleH1) expected = std::min(shape.ranks, shape.microbatches);
      if (kind == PipelineKind::kInterleaved) {
        const int first = (shape.ranks - 1 - rank) * 2 + (shape.chunks - 1) * shape.ranks + 1;
        expected = std::min(first, shape.microbatches * shape.chunks);
      }
      EXPECT_EQ(peak[static_cast<size_t>(rank)], expected) << "rank " << rank;
    }
  });
}

// Idle time over all time, of stages that take the same.
double BubbleInTheory(PipelineKind kind, const PipelineShape& shape, const StageCosts& costs) {
  const double backward = costs.backward_input + costs.backward_weight;
  const double of_one = costs.forward + backward;  // a micro-batch, a stage
  const double work = shape.microbatches * shape.chunks * of_one;
  double idle = (shape.ranks - 1) * of_one;
  if (kind == PipelineKind::kNaive) idle *= shape.microbatches;
  if (kind == PipelineKind::kZeroBubbleH1)
    idle = (shape.ranks - 1) * (costs.forward + costs.backward_input - costs.backward_weight);
  return idle / (work + idle);
}

TEST(Pipeline, BubblesAreThoseOfTheory) {
  ForAllShapes([](PipelineKind kind, const PipelineShape& shape) {
    const StageCosts costs;
    // With fewer micro-batches than ranks the later halves cannot fill what is idle.
    if (kind == PipelineKind::kZeroBubbleH1 && shape.microbatches < shape.ranks) return;
    const absl::StatusOr<PipelineTimeline> timeline =
        SimulatePipeline(Built(kind, shape), {.stages = {costs}});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_NEAR(timeline->Bubble(), BubbleInTheory(kind, shape, costs), 1e-9);
  });
}

TEST(Pipeline, ABackwardMayTakeAsLongAsItWants) {
  for (const PipelineKind kind : {PipelineKind::kGpipe, PipelineKind::kOneForwardOneBackward}) {
    const PipelineShape shape = {4, 8, 1};
    const StageCosts costs = {.forward = 1, .backward_input = 1.7, .backward_weight = 0.4};
    const auto timeline = SimulatePipeline(Built(kind, shape), {.stages = {costs}});
    EXPECT_NEAR(timeline->Bubble(), BubbleInTheory(kind, shape, costs), 1e-9);
  }
}

TEST(Pipeline, MessagesAndUnevenStagesTakeTheirTime) {
  // Two stages, one micro-batch: everything one after the other.
  PipelineCosts costs = {.stages = {{1, 2, 3}, {10, 20, 30}}, .message = 0.5};
  const auto timeline = SimulatePipeline(
      Built(PipelineKind::kOneForwardOneBackward, {.ranks = 2, .microbatches = 1}), costs);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_DOUBLE_EQ(timeline->seconds, 1 + 0.5 + 10 + 50 + 0.5 + 5);
  EXPECT_DOUBLE_EQ(timeline->busy[0], 6);
  EXPECT_DOUBLE_EQ(timeline->busy[1], 60);
  EXPECT_DOUBLE_EQ(timeline->spans[1][0].end, 1.5);  // its receive
  costs.stages.resize(3);
  EXPECT_FALSE(SimulatePipeline(Built(PipelineKind::kGpipe, {2, 1, 1}), costs).ok());
}

TEST(Pipeline, LargeOnesAreProvedAndSimulated) {
  const PipelineSchedule schedule =
      Built(PipelineKind::kOneForwardOneBackward, {.ranks = 64, .microbatches = 512});
  EXPECT_EQ(VerifyPipeline(schedule)->messages, 2 * 512 * 63);
  EXPECT_NEAR(SimulatePipeline(schedule, {})->Bubble(), 63.0 / (512 + 63), 1e-9);
}

TEST(Pipeline, WhatCannotBeIsRefusedWithWhatCan) {
  const auto refusal = [](PipelineKind kind, const PipelineShape& shape) {
    return std::string(BuildPipeline(kind, shape).status().message());
  };
  EXPECT_EQ(
      refusal(PipelineKind::kInterleaved, {4, 6, 2}),
      "interleaved wants micro-batches in groups of as many as ranks: 6 are no multiple of 4; "
      "use 4 or 8");
  EXPECT_EQ(
      refusal(PipelineKind::kInterleaved, {4, 3, 2}),
      "interleaved wants micro-batches in groups of as many as ranks: 3 are no multiple of 4; "
      "use 4");
  EXPECT_EQ(refusal(PipelineKind::kGpipe, {4, 4, 2}),
            "gpipe has one chunk on each rank, not 2; use interleaved");
  EXPECT_EQ(refusal(PipelineKind::kNaive, {0, 4, 1}),
            "a pipeline has at least 1 rank, 1 micro-batch and 1 chunk, not 0, 4 and 1");
}

TEST(Pipeline, KindsHaveNames) {
  for (const PipelineKind kind : kPipelineKinds)
    EXPECT_EQ(PipelineKindOf(NameOf(kind)), kind);
  EXPECT_EQ(PipelineKindOf("dualpipe"), std::nullopt);
}

// The list of a rank of 1f1b, written out.
TEST(Pipeline, AListReadsAsItIsRun) {
  const PipelineSchedule schedule =
      Built(PipelineKind::kOneForwardOneBackward, {.ranks = 2, .microbatches = 2});
  std::vector<std::string> words;
  for (const PipelineAction& action : schedule.actions[0])
    words.push_back(Describe(action));
  EXPECT_EQ(words,
            (std::vector<std::string>{"F 0", "SF 0 to rank 1", "F 1", "SF 1 to rank 1",
                                      "RB 0 from rank 1", "B 0", "RB 1 from rank 1", "B 1"}));
}

// ---- what the proof finds ----

class Broken : public testing::Test {
 protected:
  PipelineSchedule schedule_ = Built(PipelineKind::kZeroBubbleH1, {.ranks = 3, .microbatches = 4});

  std::vector<PipelineAction>& Of(int rank) { return schedule_.actions[static_cast<size_t>(rank)]; }

  size_t Find(int rank, PipelineActionKind kind, int microbatch) {
    for (size_t i = 0; i < Of(rank).size(); i++) {
      if (Of(rank)[i].kind == kind && Of(rank)[i].microbatch == microbatch) return i;
    }
    ADD_FAILURE() << "no such action";
    return 0;
  }

  void Erase(int rank, size_t index) { Of(rank).erase(Of(rank).begin() + long(index)); }

  void ExpectRefused(const std::string& sentence) {
    const absl::StatusOr<PipelineProof> proof = VerifyPipeline(schedule_);
    ASSERT_FALSE(proof.ok());
    EXPECT_NE(std::string(proof.status().message()).find(sentence), std::string::npos)
        << proof.status();
  }
};

TEST_F(Broken, AMissingForward) {
  Erase(1, Find(1, kForward, 2));
  ExpectRefused("rank 1, I 2: P1: it comes before what it needs");
}

TEST_F(Broken, AMissingHalf) {
  Erase(2, Find(2, kBackwardWeight, 3));
  ExpectRefused("rank 2, F 3: P1: it, or its backward, is missing");
}

TEST_F(Broken, AGradientTwice) {
  Of(1).push_back({kBackwardWeight, 3});
  ExpectRefused("rank 1, W 3: P1: it is done twice");
}

TEST_F(Broken, AMicroBatchThatIsNotThere) {
  Of(0).push_back({kForward, 4});
  ExpectRefused("rank 0, F 4: P1: its micro-batch or chunk is not there");
}

TEST_F(Broken, GradientsInAnotherOrder) {
  std::swap(Of(2)[Find(2, kBackwardWeight, 2)], Of(2)[Find(2, kBackwardWeight, 3)]);
  ExpectRefused("rank 2, W 2: P2: gradients of a later micro-batch were added before");
}

TEST_F(Broken, AMessageThatNobodySends) {
  Erase(0, Find(0, kSendForward, 1));
  ExpectRefused("P3");
}

TEST_F(Broken, AReceiveThatComesTooLate) {
  const size_t receive = Find(1, kReceiveForward, 2);
  std::swap(Of(1)[receive], Of(1)[receive + 1]);
  ExpectRefused("rank 1, RF 2 from rank 0: P3: it comes after the action that needs it");
}

TEST_F(Broken, ASendBeforeItIsMade) {
  const size_t send = Find(0, kSendForward, 2);
  std::swap(Of(0)[send], Of(0)[send - 1]);
  ExpectRefused("rank 0, SF 2 to rank 1: P3: it comes before what it sends is made");
}

TEST_F(Broken, AMessageToAnotherRank) {
  Of(0)[Find(0, kSendForward, 2)].peer = 2;
  ExpectRefused("P3: it is missing");
}

// Ranks that wait for each other: the last rank wants to begin with the second micro-batch, the
// ranks before it send the first and wait until it is taken.
TEST_F(Broken, ACircle) {
  schedule_ = Built(PipelineKind::kGpipe, {.ranks = 2, .microbatches = 4});
  // The second rank takes the last first: it posts no receive of the others before.
  std::vector<PipelineAction> forwards;
  for (const int microbatch : {3, 0, 1, 2}) {
    forwards.push_back({kReceiveForward, microbatch, 0, 0});
    forwards.push_back({kForward, microbatch});
  }
  std::copy(forwards.begin(), forwards.end(), Of(1).begin());
  ExpectRefused("P4: these wait for each other: ");
  ExpectRefused("rank 1 RF 3 from rank 0");
}

TEST_F(Broken, ARouteThatIsNotThere) {
  schedule_.route_of[1] = 1;
  ExpectRefused("there is no route 1");
  schedule_.route_of[1] = 0;
  schedule_.routes[0][1].rank = 7;
  ExpectRefused("chunk 0 of rank 7 is not there");
}

// Two directions, each with copies of the stages: what DualPipe is made of (DeepSeek-AI 2024).
TEST(PipelineRoutes, MicroBatchesMayGoBothWays) {
  PipelineSchedule schedule = {.shape = {.ranks = 2, .microbatches = 2, .chunks = 2},
                               .routes = {{{0, 0}, {1, 0}}, {{1, 1}, {0, 1}}},
                               .route_of = {0, 1}};
  schedule.actions.push_back(WithMessages(
      schedule, 0, {{kForward, 0, 0}, {kForward, 1, 1}, {kBackward, 1, 1}, {kBackward, 0, 0}}));
  schedule.actions.push_back(WithMessages(
      schedule, 1, {{kForward, 1, 1}, {kForward, 0, 0}, {kBackward, 0, 0}, {kBackward, 1, 1}}));
  const absl::StatusOr<PipelineProof> proof = VerifyPipeline(schedule);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->peak_activations, (std::vector<int>{2, 2}));
  // No rank ever waits.
  EXPECT_NEAR(SimulatePipeline(schedule, {})->Bubble(), 0, 1e-9);
}

// A route that turns round, as that of ZB-V: neighbours on it may be one rank, which sends nothing
// to itself.
TEST(PipelineRoutes, ARouteMayTurnRound) {
  PipelineSchedule schedule = {.shape = {.ranks = 2, .microbatches = 1, .chunks = 2},
                               .routes = {{{0, 0}, {1, 0}, {1, 1}, {0, 1}}},
                               .route_of = {0}};
  schedule.actions.push_back(WithMessages(
      schedule, 0, {{kForward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}, {kBackward, 0, 0}}));
  schedule.actions.push_back(WithMessages(
      schedule, 1, {{kForward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}, {kBackward, 0, 0}}));
  const absl::StatusOr<PipelineProof> proof = VerifyPipeline(schedule);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->messages, 4);
}

// ---- as text ----

TEST(PipelineJson, TextsComeBackAsTheyWere) {
  for (const PipelineKind kind : kPipelineKinds) {
    const PipelineShape shape = {4, 8, kind == PipelineKind::kInterleaved ? 2 : 1};
    const PipelineSchedule schedule = Built(kind, shape);
    const absl::StatusOr<PipelineSchedule> read = PipelineFromJson(PipelineAsJson(schedule));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->actions, schedule.actions);
    EXPECT_EQ(read->routes, schedule.routes);
    EXPECT_EQ(read->route_of, schedule.route_of);
    EXPECT_EQ(PipelineAsJson(*read), PipelineAsJson(schedule));
  }
}

TEST(PipelineJson, WhatIsWrongIsNamed) {
  const std::string right = PipelineAsJson(Built(PipelineKind::kGpipe, {2, 1, 1}));
  const auto refusal = [&](const std::string& what, const std::string& with) {
    std::string text = right;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
    return std::string(PipelineFromJson(text).status().message());
  };
  const std::string begin = "the text of the pipeline has ";
  EXPECT_EQ(refusal("\"format\": 1", "\"format\": 2"), begin + "format 2, not 1");
  EXPECT_EQ(refusal("\"ranks\"", "\"rank\""), begin + "no member \"ranks\" where one is needed");
  EXPECT_EQ(refusal("\"F\"", "\"X\""),
            begin + "\"actions\" that is \"X\", none of F, B, I, W, SF, RF, SB and RB");
  EXPECT_EQ(refusal("[\"F\",0,0]", "[\"F\",0,0,1]"),
            begin + "\"actions\" that is of 4 parts: messages have four, others three");
  EXPECT_EQ(refusal("[\"F\",0,0]", "[\"F\",-1,0]"),
            begin + "\"actions\" that is no number up to 1048576");
  EXPECT_EQ(PipelineFromJson("[]").status().message(), begin + "no JSON object");
}

TEST(PipelineSvg, HasABoxForEachActionThatComputes) {
  const PipelineSchedule schedule = Built(PipelineKind::kZeroBubbleH1, {3, 4, 1});
  const std::string svg = PipelineAsSvg(schedule, *SimulatePipeline(schedule, {}));
  size_t boxes = 0;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1))
    boxes++;
  EXPECT_EQ(boxes, size_t{36});  // three of each micro-batch on each rank
  EXPECT_NE(svg.find("<title>W 3</title>"), std::string::npos);
}

}  // namespace
}  // namespace weft
