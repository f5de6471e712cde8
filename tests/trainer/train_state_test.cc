#include "trainer/train_state.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/rank_threads.h"
#include "tests/trainer/training_run.h"
#include "trainer/failure.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

constexpr size_t kStateRanks = 2;

TrainConfig StateConfig(weft_optimizer_kind_t optimizer, NumberType param_type) {
  TrainConfig config = SmallConfig();
  config.steps = 20;
  config.elastic = true;
  config.optimizer = optimizer;
  config.param_type = param_type;
  return config;
}

// Steps [first, last) of a Trainer that goes on from states[rank], or begins; puts its state there.
void TrainOn(const TrainConfig& config, size_t first, size_t last, std::vector<TrainState>& states,
             std::vector<double>& losses) {
  RunAsThreads(kStateRanks, [&](size_t rank, weft_group_t group) {
    Trainer trainer(config, TestText(), group);
    if (first == 0) {
      trainer.Begin();
    } else {
      trainer.GoOnFrom(states[rank]);
    }
    for (size_t step = first; step < last; step++) {
      const StepRecord record = trainer.Step(step);
      if (rank == 0) losses.push_back(record.loss);
    }
    states[rank] = trainer.TakeState();
  });
}

void ExpectTheBitsOfAWholeRun(const TrainConfig& config) {
  std::vector<TrainState> whole(kStateRanks), parts(kStateRanks);
  std::vector<double> whole_losses, losses;
  TrainOn(config, 0, 20, whole, whole_losses);
  TrainOn(config, 0, 9, parts, losses);
  TrainOn(config, 9, 20, parts, losses);
  EXPECT_EQ(losses, whole_losses);
  for (size_t rank = 0; rank < kStateRanks; rank++) {
    EXPECT_EQ(parts[rank].steps_done, 20);
    EXPECT_EQ(parts[rank].last.step, 20u);
    EXPECT_EQ(parts[rank].values, whole[rank].values);
    EXPECT_EQ(parts[rank].scalars.update_count, 20);
  }
}

TEST(TrainState, GoesOnWithTheBitsOfARunThatWasNotInterrupted) {
  for (const weft_optimizer_kind_t optimizer : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_MUON}) {
    for (const NumberType type : {NumberType::kFloat32, NumberType::kBf16})
      ExpectTheBitsOfAWholeRun(StateConfig(optimizer, type));
  }
}

std::vector<std::byte> ValuesOf(size_t rank, int64_t steps_done) {
  return {std::byte(rank), std::byte{5}, std::byte(steps_done)};
}

// What rank r of as many ranks has after AgreeOnState, and what was thrown.
struct Agreed {
  std::vector<TrainState> states;
  std::vector<std::string> errors;
};

Agreed Agree(const std::vector<int64_t>& steps_done) {
  Agreed agreed{std::vector<TrainState>(steps_done.size()),
                std::vector<std::string>(steps_done.size())};
  RunAsThreads(steps_done.size(), [&](size_t rank, weft_group_t group) {
    TrainState& state = agreed.states[rank];
    state.steps_done = steps_done[rank];
    state.last.loss = 10 + double(rank);
    state.last.phases[Phase::kForward] = 20 + double(rank);
    state.last.rank_tokens = 30 + rank;
    state.next = {rank, 7 * rank};
    state.scalars.update_count = int64_t(100 + rank);
    if (steps_done[rank] >= 0) state.values = ValuesOf(rank, steps_done[rank]);
    try {
      AgreeOnState(group, state);
    } catch (const RunFailure& failure) {
      agreed.errors[rank] = failure.what();
    }
  });
  return agreed;
}

TEST(TrainState, IsTakenFromTheFurthestRank) {
  const std::vector<std::vector<int64_t>> cases = {
      {4, 5, 5, 4}, {7}, {TrainState::kNone, 0}, {TrainState::kBroken, 3, 2}, {6, 6, 6}};
  const size_t furthest_ranks[] = {1, 0, 1, 1, 0};
  for (size_t c = 0; c < cases.size(); c++) {
    const size_t furthest = furthest_ranks[c];
    const Agreed agreed = Agree(cases[c]);
    for (size_t rank = 0; rank < cases[c].size(); rank++) {
      EXPECT_EQ(agreed.errors[rank], "");
      const TrainState& state = agreed.states[rank];
      EXPECT_EQ(state.steps_done, cases[c][furthest]);
      EXPECT_EQ(state.last.loss, 10 + double(furthest));
      const bool made = cases[c][rank] == cases[c][furthest];
      EXPECT_EQ(state.last.phases[Phase::kForward], made ? 20 + double(rank) : 0);
      EXPECT_EQ(state.last.rank_tokens, made ? 30 + rank : 0);
      EXPECT_EQ(state.next, (SamplePlace{furthest, 7 * furthest}));
      EXPECT_EQ(state.scalars.update_count, int64_t(100 + furthest));
      EXPECT_EQ(state.values, ValuesOf(furthest, cases[c][furthest]));
    }
  }
}

TEST(TrainState, StaysNoneBeforeAnybodyHasBegun) {
  const Agreed agreed = Agree({TrainState::kNone, TrainState::kNone, TrainState::kNone});
  for (size_t rank = 0; rank < 3; rank++) {
    EXPECT_EQ(agreed.errors[rank], "");
    EXPECT_EQ(agreed.states[rank].steps_done, TrainState::kNone);
  }
}

TEST(TrainState, IsRefusedOnAllRanksIfNoneIsWhole) {
  for (const std::string& error : Agree({TrainState::kBroken, TrainState::kNone}).errors)
    EXPECT_NE(error.find("no rank that is left has whole weights"), std::string::npos) << error;
}

}  // namespace
}  // namespace weft::trainer
