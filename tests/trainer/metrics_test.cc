// metrics.jsonl, as docs/formats/metrics.md describes it.
#include "trainer/metrics.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <sys/resource.h>

#include "trainer/failure.h"
#include "trainer/run_files.h"

namespace weft::trainer::metrics_test {
namespace {

using Json = nlohmann::ordered_json;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-metrics-XXXXXX").string();
    directory_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }

  ~MetricsTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::filesystem::path directory_;
};

std::vector<Json> ReadLines(const std::filesystem::path& file) {
  std::vector<Json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

PhaseSeconds Phases(double forward, double checkpoint) {
  PhaseSeconds phases;
  phases[Phase::kForward] = forward;
  phases[Phase::kCheckpoint] = checkpoint;
  return phases;
}

TEST_F(MetricsTest, EachLineHasTheVersionAndTheFieldsOfTheFormat) {
  const std::string run = (directory_ / "run").string();
  {
    MetricsWriter writer(run);
    writer.Append(MetricsLine({.step = 1,
                               .loss = 5.5,
                               .loss_max = 5.75,
                               .grad_norm = 2,
                               .lr = 0.25,
                               .seconds = 0.75,
                               .comm_exposed_s = 0.5,
                               .phases = Phases(0.5, 0.25)},
                              1000, 64, std::nullopt));
    // What a checkpoint knows of a step has no phases.
    writer.Append(MetricsLine(
        {.step = 2, .loss = 4.5, .loss_max = 5, .grad_norm = 1, .lr = 0.5, .comm_exposed_s = 0},
        2000, 128, 4.75));
  }
  const std::vector<Json> lines = ReadLines(run + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], Json::parse(R"({"version": 2, "step": 1, "time_ns": 1000, "loss": 5.5,
      "loss_max": 5.75, "tok_s": 64.0, "comm_exposed_s": 0.5, "lr": 0.25, "grad_norm": 2.0,
      "step_s": 1.0, "phases_s": {"data": 0.0, "forward": 0.5, "backward": 0.0, "gather": 0.0,
      "reduce": 0.0, "optimizer": 0.0, "checkpoint": 0.25}})"));
  EXPECT_EQ(lines[1], Json::parse(R"({"version": 2, "step": 2, "time_ns": 2000, "loss": 4.5,
      "loss_max": 5.0, "val_loss": 4.75, "tok_s": 128.0, "comm_exposed_s": 0.0, "lr": 0.5,
      "grad_norm": 1.0})"));
}

TEST_F(MetricsTest, FiguresOfTheRanksAreMeansOfTheirSteps) {
  const std::string run = (directory_ / "run").string();
  std::vector<RankFigures> ranks(3);
  for (size_t step = 1; step <= 4; step++) {
    ranks[0].Add({.seconds = 0.5, .phases = Phases(0.25, 0.5), .rank_tokens = 100});
    ranks[1].Add({.seconds = 1, .phases = Phases(0.5, 0), .rank_tokens = 50});
  }
  ranks[1].machine = 1;
  ranks[1].peak_bytes = 4096;  // the third has just joined
  MetricsWriter(run).Append(MetricsLine({.step = 4}, 1000, 64, std::nullopt, ranks));
  const Json line = ReadLines(run + "/metrics.jsonl").at(0);
  EXPECT_EQ(line["slowest_rank"], 1);
  ASSERT_EQ(line["ranks"].size(), 3u);
  EXPECT_EQ(line["ranks"][0]["machine"], 0);
  EXPECT_EQ(line["ranks"][0]["steps"], 4);
  EXPECT_EQ(line["ranks"][0]["tok_s"], 100);
  EXPECT_EQ(line["ranks"][0]["step_s"], 1);
  EXPECT_EQ(line["ranks"][0]["phases_s"]["forward"], 0.25);
  EXPECT_EQ(line["ranks"][0]["phases_s"]["checkpoint"], 0.5);
  EXPECT_EQ(line["ranks"][1]["machine"], 1);
  EXPECT_EQ(line["ranks"][1]["tok_s"], 50);
  EXPECT_EQ(line["ranks"][1]["peak_bytes"], 4096);
  EXPECT_EQ(line["ranks"][2]["steps"], 0);
  EXPECT_EQ(line["ranks"][2]["tok_s"], 0);
}

// A run that an earlier release began goes on in its file.
TEST_F(MetricsTest, LinesOfVersionOneAreReadAndKept) {
  const std::string run = (directory_ / "run").string();
  const std::string file = run + "/metrics.jsonl";
  std::filesystem::create_directories(run);
  std::ofstream(file) << R"({"version":1,"step":1,"time_ns":1000,"loss":5.5,"tok_s":64.0})"
                      << "\n"
                      << R"({"step":2,"time_ns":2000,"loss":null,"val_loss":4.5})"
                      << "\n";
  MetricsWriter writer(run, 2);
  ASSERT_EQ(writer.kept().size(), 2u);
  EXPECT_EQ(writer.kept()[0].loss, 5.5);
  EXPECT_EQ(writer.kept()[1].loss, std::nullopt);
  EXPECT_EQ(writer.kept()[1].val_loss, 4.5);
  writer.Append(MetricsLine({.step = 3}, 3000, 64, std::nullopt));
  const std::vector<Json> lines = ReadLines(file);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["version"], 1);
  EXPECT_EQ(lines[2]["version"], 2);
}

StepRecord Step(size_t step) {
  return {.step = step, .loss = 5.5, .grad_norm = 2, .lr = 0.25, .comm_exposed_s = 0.5};
}

std::vector<size_t> StepsIn(const std::filesystem::path& file) {
  std::vector<size_t> steps;
  for (const Json& line : ReadLines(file))
    steps.push_back(line["step"]);
  return steps;
}

TEST_F(MetricsTest, WhatGoesOnKeepsWholeLinesUpToItsStepAndNothingElse) {
  const std::string run = (directory_ / "run").string();
  const std::string file = run + "/metrics.jsonl";
  {
    MetricsWriter writer(run);
    for (size_t step = 1; step <= 5; step++)
      writer.Append(MetricsLine(Step(step), 1000, 64, std::nullopt));
  }
  {
    MetricsWriter writer(run, 3);
    EXPECT_EQ(writer.last_step(), 3u);
    writer.Append(MetricsLine(Step(4), 2000, 64, std::nullopt));
  }
  EXPECT_EQ(StepsIn(file), (std::vector<size_t>{1, 2, 3, 4}));
  // Its writer died in the middle of line 4, or of the end of that line.
  for (const int bytes : {1, 20}) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - size_t(bytes));
    MetricsWriter writer(run, 10);
    EXPECT_EQ(writer.last_step(), 3u);
    writer.Append(MetricsLine(Step(4), 2000, 64, std::nullopt));
    EXPECT_EQ(StepsIn(file), (std::vector<size_t>{1, 2, 3, 4}));
  }
}

// While it lives, files have no room beyond some bytes.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) {
    before_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small = {bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }

  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_ = {};
  void (*before_)(int) = nullptr;
};

TEST_F(MetricsTest, LinesThatDoNotFitWaitAndAreCountedUntilThereIsRoom) {
  const std::string run = (directory_ / "run").string();
  MetricsWriter writer(run);
  {
    const FullDisk full(1000);
    for (size_t step = 1; step <= 20; step++)
      writer.Append(MetricsLine(Step(step), 1000, 64, std::nullopt));
    const size_t lines = size_t(
        std::stoul(writer.Unwritten().substr(std::string(run + "/metrics.jsonl lacks ").size())));
    EXPECT_EQ(writer.Unwritten(), run + "/metrics.jsonl lacks " + std::to_string(lines) +
                                      " of its lines: File too large");
    EXPECT_GT(lines, 10u);
    EXPECT_LT(lines, 20u);
  }
  writer.Append(MetricsLine(Step(21), 1000, 64, std::nullopt));
  EXPECT_EQ(writer.Unwritten(), "");
  writer.Finish();
  EXPECT_EQ(writer.Unwritten(), "");
  EXPECT_EQ(StepsIn(run + "/metrics.jsonl").size(), 21u);
}

TEST_F(MetricsTest, AFileOfTheRunIsWholeOrNotThere) {
  const std::string run = directory_.string();
  WriteRunFile(run, "sample.txt", "before");
  {
    const FullDisk full(1000);
    try {
      WriteRunFile(run, "sample.txt", std::string(2000, 'x'));
      FAIL();
    } catch (const NotWritten& error) {
      EXPECT_EQ(std::string(error.what()),
                "cannot write to " + run +
                    "/sample.txt: File too large; make room, or choose another --run-dir");
    }
  }
  std::ifstream in(run + "/sample.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run), {}), 1);
}

TEST_F(MetricsTest, AFolderInItsPlaceIsNamed) {
  std::filesystem::create_directories(directory_ / "metrics.jsonl");
  try {
    MetricsWriter writer(directory_.string());
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_EQ(std::string(error.what()), "cannot write to " + directory_.string() +
                                             "/metrics.jsonl: Is a directory; choose another "
                                             "--run-dir or --name");
  }
}

TEST_F(MetricsTest, ADirectoryThatCannotBeMadeIsBadInput) {
  const std::string file = (directory_ / "file").string();
  std::ofstream(file) << "in the way";
  EXPECT_THROW(MetricsWriter(file + "/run"), BadInput);
}

}  // namespace
}  // namespace weft::trainer::metrics_test
