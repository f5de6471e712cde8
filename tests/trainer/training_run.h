// A whole small training run on ranks that are threads, and what it leaves behind.
//
//   const std::vector<Outcome> ranks = RunRanks(2, config);
//   EXPECT_EQ(ranks[0].error, "");
//   EXPECT_EQ(ranks[0].losses, ranks[1].losses);
#ifndef WEFT_TESTS_TRAINER_TRAINING_RUN_H_
#define WEFT_TESTS_TRAINER_TRAINING_RUN_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/train_state.h"
#include "trainer/training_text.h"

namespace weft::trainer {

// Words in random order: something to learn within fifty steps.
const Corpus& TestCorpus();
// Its bytes.
const TrainingText& TestText();

// 2 blocks, 24 wide; 50 steps of 8 sequences.
TrainConfig SmallConfig();

// The parameters of a model, in the order of ModelUnits.
using Params = std::vector<std::vector<float>>;

// What a run leaves behind on one rank.
struct Outcome {
  std::vector<StepRecord> records;
  std::vector<double> losses;
  std::vector<double> norms;  // of gradients
  std::vector<double> loss_scales;
  std::vector<bool> skipped;  // steps
  std::vector<double> validations;
  // At the end; if every step is read, initial ones first and then those after each step.
  std::vector<Params> params;
  std::string sample;
  std::string error;
};

enum class Reading { kAtTheEnd, kEveryStep };

// Runs `ranks` threads, each with its own configuration. Validates every config.eval_every steps,
// in between and at the end.
std::vector<Outcome> RunRanks(size_t ranks, const std::function<TrainConfig(size_t rank)>& config,
                              Reading reading = Reading::kAtTheEnd);
std::vector<Outcome> RunRanks(size_t ranks, const TrainConfig& config,
                              Reading reading = Reading::kAtTheEnd);

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_TRAINING_RUN_H_
