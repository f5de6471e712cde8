#include "tests/trainer/training_run.h"

#include <exception>

#include "tests/trainer/rank_threads.h"
#include "trainer/random.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

std::string Babble(size_t bytes, uint64_t seed) {
  static constexpr const char* kWords[] = {"template ", "typename ", "class ", "int ", "return ",
                                           "const ",    "auto ",     "{\n",    "}\n",  "; "};
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; i++)
    text += kWords[BitsAt(seed, i) % 10];
  return text;
}

void Run(const TrainConfig& config, weft_group_t group, Reading reading, Outcome& outcome) {
  Trainer trainer(config, TestText(), group);
  const auto windows = SpreadWindows(TestCorpus().validation.size(), config.model.seq, 21);
  trainer.Begin();
  if (reading == Reading::kEveryStep) outcome.params.push_back(trainer.ReadParams());
  for (size_t step = 0; step < config.steps; step++) {
    const StepRecord record = trainer.Step(step);
    outcome.records.push_back(record);
    outcome.losses.push_back(record.loss);
    outcome.norms.push_back(record.grad_norm);
    outcome.loss_scales.push_back(record.loss_scale);
    outcome.skipped.push_back(record.skipped);
    const bool last = step + 1 == config.steps;
    if (last || (config.eval_every > 0 && (step + 1) % config.eval_every == 0)) {
      outcome.validations.push_back(trainer.Evaluate(windows).value());
    }
    if (last || reading == Reading::kEveryStep) outcome.params.push_back(trainer.ReadParams());
  }
  const std::string prompt = "return ";
  for (const Token token : trainer.Generate({prompt.begin(), prompt.end()}, 20, 0.7, 40))
    outcome.sample.push_back(char(token));
}

}  // namespace

const Corpus& TestCorpus() {
  static const Corpus corpus = [] {
    Corpus c;
    c.train = Babble(20000, 1);
    c.validation = Babble(3000, 2);
    return c;
  }();
  return corpus;
}

const TrainingText& TestText() {
  static const TrainingText text = ByteTokens(TestCorpus());
  return text;
}

TrainConfig SmallConfig() {
  TrainConfig config;
  config.model = {256, 16, 24, 2, 2};
  config.steps = 50;
  config.global_batch = 8;
  config.lr = 2e-3;
  config.warmup = 10;
  return config;
}

std::vector<Outcome> RunRanks(size_t ranks, const std::function<TrainConfig(size_t rank)>& config,
                              Reading reading) {
  std::vector<Outcome> outcomes(ranks);
  RunAsThreads(ranks, [&](size_t rank, weft_group_t group) {
    try {
      Run(config(rank), group, reading, outcomes[rank]);
    } catch (const std::exception& error) {
      outcomes[rank].error = error.what();
    }
  });
  return outcomes;
}

std::vector<Outcome> RunRanks(size_t ranks, const TrainConfig& config, Reading reading) {
  return RunRanks(
      ranks, [&](size_t) { return config; }, reading);
}

}  // namespace weft::trainer
