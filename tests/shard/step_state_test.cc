#include "shard/step/step_state.h"

#include <functional>
#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::step_state_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Units a (params 0, 1 and frozen 2) and b (param 3).
Registry TwoUnits() {
  Registry registry;
  const int64_t count = 4;
  const int a = *registry.BeginUnit("a");
  EXPECT_TRUE(registry.AddParam(a, "a.w", &count, 1, WEFT_FLOAT32).ok());
  EXPECT_TRUE(registry.AddParam(a, "a.b", &count, 1, WEFT_FLOAT32).ok());
  EXPECT_TRUE(
      registry.AddParam(a, "a.frozen", &count, 1, WEFT_FLOAT32, WEFT_SHARD_PARAM_FROZEN).ok());
  EXPECT_TRUE(registry.SealUnit(a).ok());
  const int b = *registry.BeginUnit("b");
  EXPECT_TRUE(registry.AddParam(b, "b.w", &count, 1, WEFT_FLOAT32).ok());
  EXPECT_TRUE(registry.SealUnit(b).ok());
  return registry;
}

constexpr int kA = 0;
constexpr int kB = 1;

struct Call {
  const char* name;
  std::function<absl::Status(StepState&)> run;
};

std::vector<int> ignored;

// Every call of a step, on unit a and param a.w where one is needed.
const std::vector<Call>& AllCalls() {
  static const std::vector<Call> calls = {
      {"step_begin",
       [](StepState& s) {
         return s.StepBegin(WEFT_SHARD_TRAIN, 0);
       }},
      {"microbatch_begin 0",
       [](StepState& s) {
         return s.MicrobatchBegin(0, true);
       }},
      {"microbatch_begin 1",
       [](StepState& s) {
         return s.MicrobatchBegin(1, true);
       }},
      {"pre_forward",
       [](StepState& s) {
         return s.PreForward(kA);
       }},
      {"post_forward",
       [](StepState& s) {
         return s.PostForward(kA);
       }},
      {"pre_backward",
       [](StepState& s) {
         return s.PreBackward(kA);
       }},
      {"grad_ready",
       [](StepState& s) {
         const absl::Status status = s.ClaimGradient(0);
         if (status.ok()) s.GradientReady(0);
         return status;
       }},
      {"post_backward",
       [](StepState& s) {
         return s.PostBackward(kA, ignored);
       }},
      {"microbatch_end",
       [](StepState& s) {
         return s.MicrobatchEnd(ignored);
       }},
      {"finish",
       [](StepState& s) {
         const absl::Status status = s.FinishBegin();
         if (status.ok()) s.FinishEnd();
         return status;
       }},
      {"optimizer_step",
       [](StepState& s) {
         return s.OptimizerStep();
       }},
      {"drop_gradients",
       [](StepState& s) {
         return s.DropGradients();
       }},
      {"step_end",
       [](StepState& s) {
         return s.StepEnd().status();
       }},
      {"verify",
       [](StepState& s) {
         return s.CheckQuiet("verify");
       }},
  };
  return calls;
}

absl::Status RunCall(StepState& state, const std::string& name) {
  for (const Call& call : AllCalls()) {
    if (name == call.name) return call.run(state);
  }
  ADD_FAILURE() << "no call " << name;
  return absl::OkStatus();
}

// After `path`, exactly the calls of `legal` are legal.
void ExpectLegal(const std::vector<std::string>& path, const std::vector<std::string>& legal,
                 weft_shard_mode_t mode = WEFT_SHARD_TRAIN, bool has_optimizer = true) {
  SCOPED_TRACE(testing::PrintToString(path));
  const Registry registry = TwoUnits();
  std::vector<std::string> accepted;
  for (const Call& call : AllCalls()) {
    StepState state(registry);
    if (has_optimizer) state.ExpectUpdates();
    for (const std::string& step : path) {
      const absl::Status status =
          step == "step_begin" ? state.StepBegin(mode, 0) : RunCall(state, step);
      ASSERT_TRUE(status.ok()) << status;
    }
    const absl::Status status = call.run(state);
    if (status.ok()) {
      accepted.push_back(call.name);
      continue;
    }
    EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
    EXPECT_EQ(ResultOf(call.run(state)), WEFT_BAD_STATE) << "changed by the refused " << call.name;
    if (!path.empty()) {
      const std::string event = path.back().substr(0, path.back().find(' '));
      EXPECT_THAT(std::string(status.message()), HasSubstr(event)) << "last events";
    }
  }
  EXPECT_EQ(accepted, legal);
}

TEST(StepState, AcceptsExactlyTheLegalCalls) {
  using Path = std::vector<std::string>;
  ExpectLegal({}, {"step_begin", "verify"});
  Path path = {"step_begin"};
  ExpectLegal(path, {"microbatch_begin 0"});
  path.push_back("microbatch_begin 0");
  ExpectLegal(path, {"pre_forward", "microbatch_end"});
  path.push_back("pre_forward");
  ExpectLegal(path, {"pre_forward", "post_forward"});
  path.push_back("post_forward");
  ExpectLegal(path, {"pre_forward", "pre_backward", "microbatch_end"});
  path.push_back("pre_backward");
  ExpectLegal(path, {"pre_forward", "grad_ready", "post_backward"});
  path.push_back("grad_ready");
  ExpectLegal(path, {"pre_forward", "post_backward"});
  path.push_back("post_backward");
  ExpectLegal(path, {"microbatch_end"});
  path.push_back("microbatch_end");
  ExpectLegal(path, {"finish"});
  path.push_back("finish");
  ExpectLegal(path, {"optimizer_step", "drop_gradients", "verify"});
  for (const char* use : {"optimizer_step", "drop_gradients"}) {
    Path used = path;
    used.push_back(use);
    ExpectLegal(used, {"step_end", "verify"});
    used.push_back("step_end");
    ExpectLegal(used, {"step_begin", "verify"});
  }
  path = {"step_begin", "microbatch_begin 0", "microbatch_end", "finish"};
  ExpectLegal(path, {"optimizer_step", "drop_gradients", "step_end", "verify"}, WEFT_SHARD_TRAIN,
              /*has_optimizer=*/false);
}

TEST(StepState, AcceptsExactlyTheLegalCallsOfEval) {
  std::vector<std::string> path = {"step_begin"};
  ExpectLegal(path, {"microbatch_begin 0", "finish", "step_end"}, WEFT_SHARD_EVAL);
  path.push_back("microbatch_begin 0");
  ExpectLegal(path, {"pre_forward", "microbatch_end"}, WEFT_SHARD_EVAL);
  path.push_back("pre_forward");
  ExpectLegal(path, {"pre_forward", "post_forward"}, WEFT_SHARD_EVAL);
  path.push_back("post_forward");
  ExpectLegal(path, {"pre_forward", "microbatch_end"}, WEFT_SHARD_EVAL);
  path.push_back("microbatch_end");
  ExpectLegal(path, {"finish", "step_end"}, WEFT_SHARD_EVAL);
  path.push_back("finish");
  ExpectLegal(path, {"step_end", "verify"}, WEFT_SHARD_EVAL);
}

class StepStateTest : public testing::Test {
 protected:
  void Run(std::initializer_list<const char*> calls) {
    for (const char* call : calls) {
      const absl::Status status = RunCall(state_, call);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  static void ExpectBadState(const absl::Status& status, const char* text) {
    EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const Registry registry_ = TwoUnits();
  StepState state_{registry_};
};

TEST_F(StepStateTest, SaysHowGradientsAreUsedOrDropped) {
  state_.ExpectUpdates();
  const auto finish = [this] {
    Run({"step_begin", "microbatch_begin 0", "microbatch_end", "finish"});
  };
  finish();
  ExpectBadState(state_.StepEnd().status(),
                 "step_end is not legal here: nothing has used the step's gradients (the context "
                 "is in step 1 after finish); update the params with optimizer_step, or give the "
                 "gradients up with drop_gradients");
  ExpectBadState(state_.StepBegin(WEFT_SHARD_TRAIN, 0), "or give the gradients up");
  Run({"drop_gradients"});
  ExpectBadState(state_.OptimizerStep(), "drop_gradients has dropped the gradients");
  ExpectBadState(state_.CheckGradientNorm(), "drop_gradients has dropped the gradients");
  Run({"step_end"});
  finish();
  Run({"optimizer_step"});
  ExpectBadState(state_.DropGradients(), "optimizer_step has used the gradients");
  ExpectBadState(state_.OptimizerStep(), "optimizer_step has used the gradients");
  Run({"step_end"});
}

TEST_F(StepStateTest, ASecondLastMicrobatchSaysWhatToPass) {
  Run({"step_begin", "microbatch_begin 0", "microbatch_end"});
  for (const int index : {0, 1}) {
    ExpectBadState(state_.MicrobatchBegin(index, true),
                   "micro-batch 0 was begun as the step's last one (the context is in step 1 after "
                   "micro-batch 0, its last); pass last=False (0 in C) to all but the last, or "
                   "call finish");
  }
}

TEST_F(StepStateTest, NamesUnitPhaseAndTheLastEightEvents) {
  Run({"step_begin", "microbatch_begin 0"});
  for (int i = 0; i < 9; ++i)
    ASSERT_TRUE(state_.PreForward(kA).ok());
  const std::string message(state_.PreBackward(kA).message());
  EXPECT_THAT(message, HasSubstr("pre_backward a is not legal here: unit a is in forward"));
  EXPECT_THAT(message, HasSubstr("in micro-batch 0 of step 1"));
  EXPECT_THAT(message, HasSubstr("call post_forward first"));
  size_t events = 0;
  for (size_t at = message.find("pre_forward a"); at != std::string::npos;
       at = message.find("pre_forward a", at + 1)) {
    ++events;
  }
  EXPECT_EQ(events, 8u);
  EXPECT_THAT(message, testing::Not(HasSubstr("step_begin")));
}

TEST_F(StepStateTest, CountsMicrobatchesWithoutGaps) {
  Run({"step_begin"});
  ExpectBadState(state_.MicrobatchBegin(1, false), "the next micro-batch is 0");
  ExpectBadState(state_.MicrobatchBegin(-1, false), "the next micro-batch is 0");
  ASSERT_TRUE(state_.MicrobatchBegin(0, false).ok());
  Run({"microbatch_end"});
  ExpectBadState(state_.MicrobatchBegin(0, false), "the next micro-batch is 1");
  ExpectBadState(state_.FinishBegin(), "last = 1");
  ASSERT_TRUE(state_.MicrobatchBegin(1, true).ok());
  Run({"microbatch_end"});
  ExpectBadState(state_.MicrobatchBegin(2, true), "micro-batch 1 was begun as the step's last one");
}

TEST_F(StepStateTest, CountsNestedForwards) {
  Run({"step_begin", "microbatch_begin 0", "pre_forward", "pre_forward", "post_forward"});
  ExpectBadState(state_.PreBackward(kA), "in forward");
  Run({"post_forward", "pre_forward", "post_forward", "pre_backward"});
}

TEST_F(StepStateTest, TakesForwardDuringBackwardAsRecompute) {
  Run({"step_begin", "microbatch_begin 0", "pre_forward", "post_forward", "pre_backward",
       "pre_forward"});
  ExpectBadState(state_.PostBackward(kA, ignored), "being recomputed");
  Run({"grad_ready", "post_forward", "post_backward"});
}

TEST_F(StepStateTest, WantsEachGradientOnce) {
  Run({"step_begin", "microbatch_begin 0", "pre_forward", "post_forward", "pre_backward"});
  ASSERT_TRUE(state_.ClaimGradient(1).ok());
  ExpectBadState(state_.ClaimGradient(1), "grad_ready a.b of unit a is not legal here");
  ExpectBadState(state_.PostBackward(kA, ignored), "grad_ready of a.b is still running");
  state_.GradientReady(1);
  ExpectBadState(state_.ClaimGradient(1), "call grad_ready once");
  ExpectBadState(state_.ClaimGradient(2), "a.frozen is frozen");
  ExpectBadState(state_.ClaimGradient(3), "unit b was not used");
  Run({"post_backward"});
  ExpectBadState(state_.ClaimGradient(0), "once per parameter");
}

TEST_F(StepStateTest, ListsMissingGradientsOnce) {
  Run({"step_begin", "microbatch_begin 0", "pre_forward", "post_forward", "pre_backward",
       "grad_ready"});
  std::vector<int> missing;
  ASSERT_TRUE(state_.PostBackward(kA, missing).ok());
  EXPECT_THAT(missing, testing::ElementsAre(1));
  missing.clear();
  ASSERT_TRUE(state_.MicrobatchEnd(missing).ok());
  EXPECT_THAT(missing, testing::ElementsAre(3));
}

TEST_F(StepStateTest, ForgetsUnitsBetweenMicrobatches) {
  Run({"step_begin"});
  ASSERT_TRUE(state_.MicrobatchBegin(0, false).ok());
  Run({"pre_forward", "post_forward", "pre_backward", "grad_ready", "post_backward",
       "microbatch_end", "microbatch_begin 1"});
  ExpectBadState(state_.PreBackward(kA), "was not used in this micro-batch");
  Run({"pre_forward", "post_forward", "pre_backward", "grad_ready", "post_backward"});
}

TEST_F(StepStateTest, EndsNoMicrobatchWithAnOpenUnit) {
  Run({"step_begin", "microbatch_begin 0"});
  ASSERT_TRUE(state_.PreForward(kB).ok());
  ExpectBadState(state_.MicrobatchEnd(ignored), "unit b is in forward");
  ASSERT_TRUE(state_.PostForward(kB).ok());
  ASSERT_TRUE(state_.PreBackward(kB).ok());
  std::vector<int> missing;
  ExpectBadState(state_.MicrobatchEnd(missing), "unit b is in backward");
  EXPECT_THAT(missing, IsEmpty());
}

TEST_F(StepStateTest, HasNoGradientsInEval) {
  ASSERT_TRUE(state_.StepBegin(WEFT_SHARD_EVAL, 0).ok());
  Run({"microbatch_begin 0", "pre_forward", "post_forward"});
  ExpectBadState(state_.PreBackward(kA), "WEFT_SHARD_EVAL");
  std::vector<int> missing;
  ASSERT_TRUE(state_.MicrobatchEnd(missing).ok());
  EXPECT_THAT(missing, IsEmpty());
  Run({"step_end", "step_begin"});
}

class BackwardsTest : public StepStateTest {
 protected:
  // Unit a runs forward `forwards` times in a step of one micro-batch.
  void Begin(int forwards) {
    Run({"step_begin", "microbatch_begin 0"});
    for (int i = 0; i < forwards; ++i)
      Run({"pre_forward", "post_forward"});
  }

  // One backward; true if the gradient of a.w was complete, `settled` gets what post_backward says.
  bool Backward() {
    Run({"pre_backward"});
    EXPECT_TRUE(state_.ClaimGradient(0).ok());
    const bool complete = state_.GradientReady(0);
    settled_.clear();
    EXPECT_TRUE(state_.PostBackward(kA, settled_).ok());
    return complete;
  }

  std::vector<int> settled_;
};

TEST_F(BackwardsTest, AreAsManyAsForwards) {
  Begin(2);
  EXPECT_FALSE(Backward());
  EXPECT_THAT(settled_, IsEmpty());
  EXPECT_TRUE(Backward());
  EXPECT_THAT(settled_, testing::ElementsAre(1)) << "a.w is settled, a.b missing";
  ExpectBadState(state_.PreBackward(kA), "has done backward 2 times");
}

TEST_F(BackwardsTest, MayBeFewerThanForwards) {
  Begin(3);
  EXPECT_FALSE(Backward());
  ASSERT_TRUE(state_.MicrobatchEnd(settled_).ok());
  EXPECT_THAT(settled_, testing::ElementsAre(3, 1, 0)) << "complete when the micro-batch ends";
}

TEST_F(BackwardsTest, AreThoseOfTheRecordedStep) {
  state_.ExpectRuns({{2, 1}, {}});
  Begin(2);
  EXPECT_TRUE(Backward());
  ExpectBadState(state_.PreBackward(kA), "has done backward 1 time");
  Run({"microbatch_end", "finish", "step_end"});
  state_.ExpectRuns({{1, 3}, {}});
  Begin(1);
  EXPECT_FALSE(Backward());
  EXPECT_FALSE(Backward());
  EXPECT_TRUE(Backward());
}

TEST_F(BackwardsTest, AreAsManyAsForwardsWhereTheRecordedStepHadFewerOfThese) {
  for (const UnitRuns recorded : {UnitRuns{0, 0}, UnitRuns{1, 1}, UnitRuns{2, 0}}) {
    SCOPED_TRACE(recorded.forwards);
    state_.ExpectRuns({recorded, {}});
    Begin(2);
    EXPECT_FALSE(Backward());
    EXPECT_TRUE(Backward());
    Run({"microbatch_end", "finish", "step_end"});
  }
}

TEST_F(BackwardsTest, DoNotCountRecomputing) {
  Begin(1);
  Run({"pre_backward", "pre_forward", "post_forward", "pre_forward", "post_forward"});
  EXPECT_TRUE(state_.units().Of(kA).InBackward());
  EXPECT_FALSE(state_.units().Of(kA).uses > 0);
  ASSERT_TRUE(state_.ClaimGradient(0).ok());
  EXPECT_TRUE(state_.GradientReady(0));
  Run({"post_backward"});
  ExpectBadState(state_.PreForward(kA), "recompute a unit before its post_backward");
}

TEST_F(BackwardsTest, TakeEachGradientOncePerBackward) {
  Begin(2);
  Run({"pre_backward", "grad_ready"});
  ExpectBadState(state_.ClaimGradient(0), "once per parameter and backward");
  Run({"post_backward"});
  ExpectBadState(state_.ClaimGradient(0), "not legal here");
  Run({"pre_backward", "grad_ready", "post_backward"});
}

TEST_F(StepStateTest, SaysWhereItIsOnceAndWhatMovesItOn) {
  const auto refused = [&](const absl::Status& status) {
    const std::string text(status.message());
    return text.substr(0, text.find("; last events"));
  };
  EXPECT_EQ(refused(state_.FinishBegin()),
            "finish is not legal here: the context is between steps; begin a step with step_begin");
  EXPECT_EQ(refused(state_.MicrobatchEnd(ignored)),
            "microbatch_end is not legal here: no micro-batch is under way (the context is between "
            "steps); begin a step with step_begin");
  Run({"step_begin", "microbatch_begin 0"});
  EXPECT_EQ(refused(state_.StepEnd().status()),
            "step_end is not legal here: the context is in micro-batch 0 of step 1; end the "
            "micro-batch with microbatch_end");
  Run({"pre_forward", "post_forward", "microbatch_end"});
  EXPECT_EQ(
      refused(state_.PreForward(kA)),
      "pre_forward a is not legal here: no micro-batch is under way (the context is in step 1 "
      "after micro-batch 0, its last); call finish");
  Run({"finish"});
  EXPECT_EQ(refused(state_.FinishBegin()),
            "finish is not legal here: the context is in step 1 after finish; end the step with "
            "step_end");
  EXPECT_EQ(refused(state_.NotInUse("param_view", kA, "ask later")),
            "param_view a is not legal here: unit a is not in use (the context is in step 1 after "
            "finish); ask later");
}

TEST_F(StepStateTest, SaysWhichUnitIsNotInUse) {
  Run({"step_begin", "microbatch_begin 0", "pre_forward", "post_forward"});
  const absl::Status status = state_.NotInUse("param_view", kA, "ask later");
  ExpectBadState(status, "param_view a is not legal here: unit a has done forward");
  ExpectBadState(status, "ask later");
}

}  // namespace
}  // namespace weft::step_state_test
