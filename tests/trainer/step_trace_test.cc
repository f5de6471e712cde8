// Traces of chosen steps, on ranks that are threads.
#include "trainer/step_trace.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/rank_threads.h"
#include "tests/trainer/training_run.h"
#include "trainer/chrome_trace.h"
#include "trainer/failure.h"
#include "trainer/option_words.h"
#include "trainer/train.h"

namespace weft::trainer::step_trace_test {
namespace {

using Json = nlohmann::json;

// Trains 6 steps and traces 3 and 4; what rank 0 would write.
Json Trace(size_t ranks, TrainConfig config) {
  config.steps = 6;
  config.trace_first = 3;
  config.trace_last = 4;
  std::mutex mutex;
  std::string text;
  RunAsThreads(ranks, [&](size_t rank, weft_group_t group) {
    Trainer trainer(config, TestText(), group);
    trainer.Begin();
    for (size_t step = 0; step < config.steps; step++)
      trainer.Step(step);
    const std::vector<RankTrace> all = GatherTraces(group, trainer.trace());
    const std::lock_guard lock(mutex);
    EXPECT_EQ(all.size(), rank == 0 ? ranks : 0);
    if (rank == 0) text = ChromeTraceOf(all, ModelUnits(config.model));
  });
  return Json::parse(text)["traceEvents"];
}

double End(const Json& event) {
  return event["ts"].get<double>() + event["dur"].get<double>();
}

TEST(StepTrace, HasEachUseOfAUnitOnEveryRankWithinItsStep) {
  TrainConfig config = SmallConfig();
  config.accumulate = 2;
  config.strategy = WEFT_SHARD_FULL_SHARD;
  const Json events = Trace(2, config);
  constexpr double kRounding = 0.002;  // microseconds
  for (const int rank : {0, 1}) {
    std::map<size_t, Json> steps;
    std::map<std::string, size_t> counts;
    std::set<std::string> lanes;
    for (const Json& event : events) {
      if (event["pid"] != rank) continue;
      if (event["ph"] == "M") {
        if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
        continue;
      }
      EXPECT_EQ(event["ph"], "X");
      counts[event["name"]]++;
      if (event["tid"] == 0) steps[event["args"]["step"]] = event;
    }
    EXPECT_EQ(lanes, (std::set<std::string>{"steps", "computing", "waiting for other ranks",
                                            "reductions under way"}));
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps.begin()->first, 3u);
    EXPECT_GE(steps[4]["ts"].get<double>(), End(steps[3]));
    for (const Json& event : events) {
      if (event["pid"] != rank || event["ph"] != "X") continue;
      const Json& step = steps[event["args"]["step"]];
      EXPECT_GE(event["dur"], 0);
      EXPECT_GE(event["ts"].get<double>(), step["ts"].get<double>() - kRounding) << event;
      EXPECT_LE(End(event), End(step) + kRounding) << event;
    }
    // Two steps of two micro-batches; the token table is used at both ends.
    for (const UnitSpec& unit : ModelUnits(config.model)) {
      const size_t uses = unit.ends_forward ? 2 : 1;
      EXPECT_EQ(counts[unit.name + " backward"], 4 * uses) << unit.name;
      EXPECT_GE(counts[unit.name + " forward"], 4u) << unit.name;
    }
    EXPECT_EQ(counts["data"], 4u);
    EXPECT_EQ(counts["optimizer"], 2u);
    EXPECT_GE(counts["reduce"], 2u);
    EXPECT_EQ(counts["gradients"], 2u);
  }
}

// What shares a lane does not overlap, but for what lies within another: viewers draw it so.
TEST(StepTrace, EventsOfALaneAreNestedOrApart) {
  const Json events = Trace(2, SmallConfig());
  std::map<std::pair<int, int>, std::vector<Json>> lanes;
  for (const Json& event : events) {
    if (event["ph"] == "X") lanes[{event["pid"], event["tid"]}].push_back(event);
  }
  EXPECT_GE(lanes.size(), 6u);
  for (const auto& [lane, of_lane] : lanes) {
    for (const Json& a : of_lane) {
      for (const Json& b : of_lane) {
        if (b["ts"].get<double>() <= a["ts"].get<double>()) continue;
        const bool apart = b["ts"].get<double>() >= End(a) - 0.002;
        const bool within = End(b) <= End(a) + 0.002;
        EXPECT_TRUE(apart || within) << a << " and " << b;
      }
    }
  }
}

TEST(StepTrace, ARunWithoutOneHasNoEvents) {
  RunAsThreads(1, [](size_t, weft_group_t group) {
    TrainConfig config = SmallConfig();
    Trainer trainer(config, TestText(), group);
    trainer.Begin();
    trainer.Step(0);
    EXPECT_TRUE(trainer.trace().empty());
  });
}

TEST(StepTrace, ChangesNoBit) {
  TrainConfig config = SmallConfig();
  config.steps = 5;
  const Outcome plain = RunRanks(2, config)[0];
  config.trace_first = 2;
  config.trace_last = 4;
  const Outcome traced = RunRanks(2, config)[0];
  ASSERT_EQ(plain.error + traced.error, "");
  EXPECT_EQ(plain.losses, traced.losses);
  EXPECT_EQ(plain.params, traced.params);
}

TEST(StepTrace, RangesOfStepsAreReadAndWritten) {
  TrainConfig config;
  for (const char* text : {"3-5", "1-1000", "none"}) {
    SetTrace(config, text);
    EXPECT_EQ(TraceText(config), text);
  }
  SetTrace(config, "7");
  EXPECT_EQ(TraceText(config), "7-7");
  for (const char* text : {"", "0-2", "5-3", "1-1001", "3-", "-3", "a", "1-2-3", "1,2"})
    EXPECT_THROW(SetTrace(config, text), BadInput) << text;
}

}  // namespace
}  // namespace weft::trainer::step_trace_test
