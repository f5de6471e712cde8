// Elastic runs on processes that are killed: what the others do from then on has the bits of ranks
// that start from the same state. The moment of a death is not chosen but read from what the run
// says, so every repetition tries another one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/error.h"
#include "weft/group.h"

#include "tests/support/forked_ranks.h"
#include "tests/trainer/rank_threads.h"
#include "tests/trainer/training_run.h"
#include "trainer/options.h"
#include "trainer/run.h"

namespace weft::trainer {
namespace {

constexpr int kRanks = 3;
constexpr double kLimitS = 120;

// Rank `rank` is killed when so many steps have been written.
struct Kill {
  int rank = 0;
  size_t steps = 0;
};

// What a run says when it goes on: with the weights of which step, and how many ranks.
struct Turn {
  size_t step = 0;
  size_t ranks = 0;
};

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool named =
      fd >= 0 && bind(fd, generic, length) == 0 && getsockname(fd, generic, &length) == 0;
  close(fd);
  return named ? ntohs(address.sin_port) : 0;
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

size_t LineCount(const std::string& path) {
  const std::string text = ReadAll(path);
  return size_t(std::count(text.begin(), text.end(), '\n'));
}

class ElasticRun : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weft_elastic_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/text") << TestCorpus().train;
    config_.train = SmallConfig();
    config_.train.steps = 1500;
    config_.train.global_batch = 7;  // no number of ranks divides it
    config_.train.eval_every = 100;
    config_.train.eval_windows = 5;
    config_.train.final_windows = 21;
    config_.train.sample_bytes = 5;
    config_.train.elastic = true;
    config_.data = {folder_ + "/text"};
    config_.run_dir = folder_;
    config_.name = "run";
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string metrics() const { return folder_ + "/run/metrics.jsonl"; }

  void Train(const std::vector<Kill>& kills);
  std::string TrainRank(int rank, int port, const std::vector<Kill>& kills) const;
  std::vector<Turn> ReadTurns() const;
  std::string CompareWithTurns(const std::vector<Turn>& turns) const;

  std::string folder_;
  ProgramConfig config_;
};

std::string ElasticRun::TrainRank(int rank, int port, const std::vector<Kill>& kills) const {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  const std::string output = folder_ + "/output" + std::to_string(rank);
  if (std::freopen(output.c_str(), "w", stdout) == nullptr) return "no output file";
  for (const Kill& kill : kills) {
    if (kill.rank != rank) continue;
    std::thread([this, kill] {
      while (LineCount(metrics()) < kill.steps)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      raise(SIGKILL);
    }).detach();
  }
  weft_group_t group = nullptr;
  if (weft_group_create_from_env(nullptr, &group) != WEFT_SUCCESS) return weft_last_error();
  std::string problem;
  try {
    trainer::Run(config_, group).ToTheEnd();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  weft_group_destroy(group);
  std::fflush(stdout);
  return problem;
}

void ElasticRun::Train(const std::vector<Kill>& kills) {
  const int port = FreePort();
  ASSERT_NE(port, 0);
  const auto ends =
      test::RunForkedRanks(kRanks, kLimitS, [&](int rank) { return TrainRank(rank, port, kills); });
  for (int rank = 0; rank < kRanks; ++rank) {
    const test::RankEnd& end = ends[size_t(rank)];
    const bool killed = std::any_of(kills.begin(), kills.end(),
                                    [&](const Kill& kill) { return kill.rank == rank; });
    if (killed) {
      EXPECT_TRUE(WIFSIGNALED(end.wait_status) && !end.timed_out) << rank << ": " << end.said;
    } else {
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
    }
  }
}

// In the order in which they stand in the file.
std::vector<Turn> TurnsIn(const std::string& path) {
  static const std::regex said(
      "at step [0-9]+; ([123]) ranks? goe?s? on from step [0-9]+ with the weights of step "
      "([0-9]+), "
      "7 sequences a step, [0-9 or]+ on each rank");
  std::vector<Turn> turns;
  const std::string text = ReadAll(path);
  for (std::sregex_iterator it(text.begin(), text.end(), said), end; it != end; ++it)
    turns.push_back({std::stoul((*it)[2]), std::stoul((*it)[1])});
  return turns;
}

std::vector<Turn> ElasticRun::ReadTurns() const {
  std::vector<Turn> turns;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<Turn> more = TurnsIn(folder_ + "/output" + std::to_string(rank));
    turns.insert(turns.end(), more.begin(), more.end());
  }
  std::sort(turns.begin(), turns.end(),
            [](const Turn& a, const Turn& b) { return a.ranks > b.ranks; });
  return turns;
}

// Trains with as many ranks as each turn had, which start from the state of those before, and
// compares step by step.
std::string ElasticRun::CompareWithTurns(const std::vector<Turn>& turns) const {
  std::vector<StepRecord> expected;
  double validation = 0;
  const Corpus corpus = LoadCorpus(config_.data, folder_);
  const TrainingText tokens = ByteTokens(corpus);
  const auto windows =
      SpreadWindows(corpus.validation.size(), config_.train.model.seq, config_.train.final_windows);
  TrainState state;
  for (size_t t = 0; t <= turns.size(); ++t) {
    const size_t ranks = t == 0 ? kRanks : turns[t - 1].ranks;
    const size_t end = t == turns.size() ? config_.train.steps : turns[t].step;
    const TrainState start = state;
    RunAsThreads(ranks, [&](size_t rank, weft_group_t group) {
      Trainer trainer(config_.train, tokens, group);
      if (t == 0) {
        trainer.Begin();
      } else {
        trainer.GoOnFrom(start);
      }
      for (size_t step = t == 0 ? 0 : turns[t - 1].step; step < end; ++step) {
        const StepRecord record = trainer.Step(step);
        if (rank == 0) expected.push_back(record);
      }
      if (rank == 0) state = trainer.TakeState();
      if (t == turns.size()) {
        const double loss = trainer.Evaluate(windows).value();
        if (rank == 0) validation = loss;
      }
    });
  }
  std::ifstream lines(metrics());
  std::string text;
  size_t step = 0;
  for (; std::getline(lines, text); ++step) {
    const nlohmann::json line = nlohmann::json::parse(text);
    const StepRecord& want = expected.at(step);
    if (line["step"] != want.step || line["loss"].get<double>() != want.loss ||
        line["grad_norm"].get<double>() != want.grad_norm) {
      return "expected loss " + std::to_string(want.loss) + " at step " +
             std::to_string(want.step) + ", found " + text;
    }
  }
  if (step != config_.train.steps) return std::to_string(step) + " steps were written";
  const double found = nlohmann::json::parse(
      ReadAll(metrics()).substr(ReadAll(metrics()).rfind("\n{") + 1))["val_loss"];
  return found == validation ? "" : "the last validation has another loss";
}

class KilledRanks : public ElasticRun, public testing::WithParamInterface<std::vector<Kill>> {};

TEST_P(KilledRanks, LeaveTheBitsOfThoseWhoGoOnFromTheSameWeights) {
  Train(GetParam());
  const std::vector<Turn> turns = ReadTurns();
  ASSERT_EQ(turns.size(), GetParam().size());
  for (size_t t = 0; t < turns.size(); ++t) {
    EXPECT_EQ(turns[t].ranks, 2 - t);
    EXPECT_GE(turns[t].step, GetParam()[t].steps);
    EXPECT_LT(turns[t].step, config_.train.steps);
  }
  // In a process of its own: its ranks are threads.
  const auto ends = test::RunForkedRanks(1, kLimitS, [&](int) { return CompareWithTurns(turns); });
  EXPECT_EQ(ends[0].Problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Deaths, KilledRanks,
                         testing::Values(std::vector<Kill>{{2, 40}}, std::vector<Kill>{{1, 199}},
                                         std::vector<Kill>{{0, 75}},
                                         std::vector<Kill>{{0, 50}, {1, 300}},
                                         std::vector<Kill>{{1, 60}, {0, 400}}));

// The process of a rank that weftrun has started and that lives; -1: none.
int PidOf(int rank, pid_t weftrun) {
  std::istringstream children(ReadAll("/proc/" + std::to_string(weftrun) + "/task/" +
                                      std::to_string(weftrun) + "/children"));
  const std::string variable = '\0' + std::string("RANK=") + std::to_string(rank) + '\0';
  for (int pid = -1; children >> pid;) {
    const std::string environment = '\0' + ReadAll("/proc/" + std::to_string(pid) + "/environ");
    if (environment.find(variable) != std::string::npos) return pid;
  }
  return -1;
}

// The program itself, because weftrun starts the lost ranks again: each kill takes a rank, and the
// next one waits until another has come in its place.
class ReplacedRanks : public ElasticRun, public testing::WithParamInterface<std::vector<int>> {
 protected:
  std::string TrainUnderWeftrun(const std::vector<std::string>& options);
  void KillAndAwait(pid_t weftrun);

  std::string output() const { return folder_ + "/output"; }
};

std::string ReplacedRanks::TrainUnderWeftrun(const std::vector<std::string>& options) {
  const char *const launcher = std::getenv("WEFTRUN"), *const program = std::getenv("WEFT_TRAIN");
  if (launcher == nullptr || program == nullptr)
    return "WEFTRUN and WEFT_TRAIN are to name the programs";
  std::vector<std::string> words{launcher, "--elastic", "--max-restarts", "9", "-n", "3", program};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t weftrun = fork();
  if (weftrun == 0) {
    if (std::freopen(output().c_str(), "w", stdout) == nullptr) _exit(1);
    dup2(1, 2);
    alarm(kLimitS);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  KillAndAwait(weftrun);
  int status = -1;
  waitpid(weftrun, &status, 0);
  return status == 0 ? "" : "weftrun ended with " + std::to_string(status);
}

void ReplacedRanks::KillAndAwait(pid_t weftrun) {
  const auto wait_for = [&](const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(int(kLimitS));
    while (!done() && std::chrono::steady_clock::now() < end && kill(weftrun, 0) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (size_t i = 0; i < GetParam().size(); ++i) {
    wait_for([&] { return LineCount(metrics()) >= 30 + 200 * i; });
    const int pid = PidOf(GetParam()[i], weftrun);
    if (pid > 0) kill(pid, SIGKILL);
    wait_for([&] { return TurnsIn(output()).size() == 2 * (i + 1); });
  }
}

TEST_P(ReplacedRanks, LeaveTheBitsOfThoseWhoGoOnFromTheSameWeights) {
  const std::vector<std::string> options{"--elastic", "--data",   folder_ + "/text",
                                         "--name",    "run",      "--run-dir",
                                         folder_,     "--steps",  "1500",
                                         "--batch",   "7",        "--seq",
                                         "16",        "--layers", "2",
                                         "--heads",   "2",        "--width",
                                         "24",        "--lr",     "0.002",
                                         "--warmup",  "10",       "--eval-every",
                                         "100"};
  std::vector<const char*> arguments{"weft_train"};
  for (const std::string& word : options)
    arguments.push_back(word.c_str());
  std::string help;
  config_ = {};
  ASSERT_TRUE(
      ParseOptions(int(arguments.size()), const_cast<char**>(arguments.data()), config_, help));
  config_.train = WithDefaults(config_.train, kRanks);
  ASSERT_EQ(TrainUnderWeftrun(options), "") << ReadAll(output());
  const std::vector<Turn> turns = TurnsIn(output());
  ASSERT_EQ(turns.size(), 2 * GetParam().size()) << ReadAll(output());
  for (size_t t = 0; t < turns.size(); ++t)
    EXPECT_EQ(turns[t].ranks, t % 2 == 0 ? 2 : 3);
  const auto ends = test::RunForkedRanks(1, kLimitS, [&](int) { return CompareWithTurns(turns); });
  EXPECT_EQ(ends[0].Problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Deaths, ReplacedRanks,
                         testing::Values(std::vector<int>{1}, std::vector<int>{0},
                                         std::vector<int>{2, 0, 0}));

}  // namespace
}  // namespace weft::trainer
