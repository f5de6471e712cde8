// The trainer's steps on command, and the inputs of those who are compared with it: what ./dev compare --trainer measures of weft.
//
//   build/release/bench/trainer_bench inputs FOLDER SHAPE...                   writes weights, tokens and their index
//   build/release/bin/weftrun -n 2 build/release/bench/trainer_bench steps SHAPE... [strategy=full-shard] [precision=bf16]
//
// SHAPE: layers=6 width=384 heads=6 seq=256 vocabulary=256 batch=8 steps=60; batch: sequences of all ranks. Each rank reads commands from
// the pipe COMPARE_PIPES/command.RANK and answers through COMPARE_PIPES/answer.RANK, a line of JSON each (bench/compare/jobs.py):
// "steps=3" makes three steps, "quit" ends. With alone=1 each rank trains on its share as a group of one: the same step without
// collectives, of a strategy that shards nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <unistd.h>

#include "weft/weft.hpp"

#include "base/standard_fds.h"
#include "trainer/failure.h"
#include "trainer/optimizer_setup.h"
#include "trainer/random.h"
#include "trainer/strategy.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

using nlohmann::json;

// Words of the command line, key=value.
class Words {
 public:
  Words(int argc, char** argv, int first) {
    for (int i = first; i < argc; i++) {
      const std::string word = argv[i];
      const size_t at = word.find('=');
      if (at == std::string::npos) throw BadInput(word + ": give key=value");
      words_[word.substr(0, at)] = word.substr(at + 1);
    }
  }

  std::string Text(const std::string& key, const std::string& fallback) const {
    const auto found = words_.find(key);
    return found == words_.end() ? fallback : found->second;
  }

  size_t Number(const std::string& key, size_t fallback) const {
    return size_t(std::stoull(Text(key, std::to_string(fallback))));
  }

 private:
  std::map<std::string, std::string> words_;
};

TrainConfig ConfigOf(const Words& words) {
  TrainConfig config;
  config.model.layers = words.Number("layers", 6);
  config.model.width = words.Number("width", 384);
  config.model.heads = words.Number("heads", 6);
  config.model.seq = words.Number("seq", 256);
  config.model.vocabulary = words.Number("vocabulary", 256);
  config.global_batch = words.Number("batch", 8);
  config.steps = words.Number("steps", 60);
  config.threads = int(words.Number("threads", 1));
  config.lr = 1e-4;  // of all contestants, from the first step to the last
  config.schedule = Schedule::kConstant;
  config.warmup = 0;
  config.strategy = ParseStrategy(words.Text("strategy", "ddp"));
  config.precision =
      words.Text("precision", "fp32") == "bf16" ? Precision::kBf16 : Precision::kFp32;
  if (!PrecisionSupported(config.precision)) {
    throw BadInput("this CPU multiplies no bfloat16; compare fp32 alone");
  }
  ChooseOptimizerNumbers(config);
  return config;
}

// Random tokens, as many as the steps read once.
TrainingText RandomTokens(const TrainConfig& config) {
  const size_t windows = config.global_batch * config.steps + 2;
  std::vector<Token> tokens(windows * config.model.seq);
  for (size_t i = 0; i < tokens.size(); i++)
    tokens[i] = Token(Mix(i) % config.model.vocabulary);
  const TokenText text(std::move(tokens));
  return {text, text.Part(0, 2 * config.model.seq)};
}

void Write(const std::string& path, const void* data, size_t bytes, std::ios::openmode mode) {
  std::ofstream file(path, std::ios::binary | mode);
  file.write(static_cast<const char*>(data), std::streamsize(bytes));
  if (!file.flush()) throw RunFailure("writing " + path + " failed");
}

// weights.f32: all params in the order of ModelUnits; tokens.i32: [steps, batch, seq + 1]; inputs.json: what they are.
void WriteInputs(const std::string& folder, const TrainConfig& config) {
  json params = json::array();
  size_t index = 0;
  Write(folder + "/weights.f32", nullptr, 0, std::ios::trunc);
  for (const UnitSpec& unit : ModelUnits(config.model)) {
    for (const ParamSpec& spec : unit.params) {
      std::vector<float> values(spec.Count());
      InitParam(spec, config.seed, index++, values.data());
      Write(folder + "/weights.f32", values.data(), values.size() * sizeof(float), std::ios::app);
      params.push_back({{"name", spec.name}, {"shape", spec.shape}, {"decay", spec.decay}});
    }
  }
  const TrainingText text = RandomTokens(config);
  WindowSampler sampler(text.train.size(), config.model.seq, config.global_batch, config.seed);
  std::vector<Token> window(config.model.seq + 1);
  std::vector<int32_t> tokens;
  for (size_t step = 0; step < config.steps; step++) {
    for (size_t slot = 0; slot < config.global_batch; slot++) {
      text.train.Read(sampler.Offset(step, slot), window);
      tokens.insert(tokens.end(), window.begin(), window.end());
    }
  }
  Write(folder + "/tokens.i32", tokens.data(), tokens.size() * sizeof(int32_t), std::ios::trunc);
  const json index_of = {{"params", params},
                         {"lr", config.lr},
                         {"betas", {config.beta1, config.beta2}},
                         {"epsilon", config.epsilon},
                         {"weight_decay", config.weight_decay},
                         {"clip", config.grad_clip},
                         {"flops_per_token", FlopsPerToken(config.model)}};
  const std::string inputs = index_of.dump() + "\n";
  Write(folder + "/inputs.json", inputs.data(), inputs.size(), std::ios::trunc);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What this process holds: what it may do so beside the model, before there is one.
size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

// So many steps; a barrier first, so that no rank waits in them for one that was told later.
json MakeSteps(Trainer& trainer, const Group& group, size_t first, size_t count) {
  group.Barrier();
  json losses = json::array();
  double exposed = 0;
  const double begin = Now();
  for (size_t step = first; step < first + count; step++) {
    const StepRecord record = trainer.Step(step);
    losses.push_back(record.loss);
    exposed += record.comm_exposed_s;
  }
  return {{"seconds", Now() - begin}, {"losses", losses}, {"exposed_s", exposed}};
}

// The core of this rank, if there is one for each.
void Bind(int rank) {
  const char* cores = std::getenv("COMPARE_CORES");
  if (cores == nullptr) return;
  std::istringstream list(cores);
  std::string core;
  for (int i = 0; i <= rank; i++)
    std::getline(list, core, ',');
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::stoi(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) throw RunFailure("no core for this rank");
}

void Answer(std::ofstream& answers, const json& answer) {
  answers << answer.dump() << std::endl;
}

// Commands until the last.
void Obey(std::ifstream& commands, std::ofstream& answers, Trainer& trainer, const Group& group,
          size_t steps) {
  size_t done = 0;
  std::string line;
  while (std::getline(commands, line) && line != "quit") {
    const std::string key = "steps=";
    if (!line.starts_with(key)) throw BadInput(line + ": steps=N or quit");
    const size_t count = std::stoull(line.substr(key.size()));
    if (done + count > steps) throw BadInput(fmt::format("there are inputs for {} steps", steps));
    Answer(answers, MakeSteps(trainer, group, done, count));
    done += count;
  }
}

void Steps(const Words& words) {
  const char* folder = std::getenv("COMPARE_PIPES");
  if (folder == nullptr) throw BadInput("COMPARE_PIPES names no folder of pipes");
  const char* launched = std::getenv("RANK");
  const int rank = launched == nullptr ? 0 : std::atoi(launched);
  std::ifstream commands(fmt::format("{}/command.{}", folder, rank));
  std::ofstream answers(fmt::format("{}/answer.{}", folder, rank));
  try {
    Bind(rank);
    TrainConfig config = ConfigOf(words);
    const Group world = Group::FromEnvironment();
    const bool alone = words.Number("alone", 0) != 0;
    const Group own = alone ? world.Split(rank, 0) : Group();
    const size_t steps = config.steps;
    if (alone) config.global_batch /= size_t(world.Size());
    const size_t before = ResidentBytes();
    const TrainingText text = RandomTokens(config);
    Trainer trainer(config, text, alone ? own.get() : world.get());
    trainer.Begin();
    Answer(answers, {{"pid", getpid()},
                     {"size", world.Size()},
                     {"version", fmt::format("weft {}", WEFT_VERSION_STRING)},
                     {"before_bytes", before}});
    Obey(commands, answers, trainer, world, steps);
  } catch (const std::exception& error) {
    Answer(answers, {{"failure", error.what()}});
    throw;
  }
}

void Run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "inputs" && argc > 2) {
    const TrainConfig config = ConfigOf(Words(argc, argv, 3));
    CheckConfig(config, 1);
    WriteInputs(argv[2], config);
  } else if (what == "steps") {
    Steps(Words(argc, argv, 2));
  } else {
    throw BadInput("give inputs FOLDER SHAPE... or steps SHAPE...");
  }
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  try {
    weft::trainer::Run(argc, argv);
  } catch (const weft::trainer::BadInput& error) {
    std::fprintf(stderr, "trainer_bench: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainer_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
