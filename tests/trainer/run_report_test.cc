// The report of a run: facts to pages. What the program writes is in report_program_test.py.
#include "trainer/reports/run_report.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/rank_time.h"
#include "trainer/reports/bottleneck.h"
#include "trainer/reports/phase_bars.h"
#include "trainer/reports/sent_bytes.h"

namespace weft::trainer::run_report_test {
namespace {

PhaseSeconds Phases(double data, double forward, double backward, double gather, double reduce,
                    double optimizer, double checkpoint) {
  PhaseSeconds phases;
  const double seconds[] = {data, forward, backward, gather, reduce, optimizer, checkpoint};
  for (size_t i = 0; i < kPhases; i++)
    phases[Phase(i)] = seconds[i];
  return phases;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    count++;
  return count;
}

TEST(Bottleneck, IsThePhaseThatTakesTheMostOfWhatIsNoComputing) {
  TrainConfig config;
  const auto of = [&](const PhaseSeconds& phases) {
    return BottleneckOf(config, SpeedFacts{.phases = phases, .ranks = 2});
  };
  EXPECT_EQ(of(Phases(3, 30, 60, 4, 1, 1, 1)).find("Reading data takes 3 % of a step: make files"),
            0u);
  EXPECT_EQ(of(Phases(0, 30, 40, 20, 9, 1, 0)).find("Waiting for parameters takes 20 %"), 0u);
  EXPECT_EQ(of(Phases(0, 30, 40, 9, 20, 1, 0)).find("Waiting for gradients of other ranks"), 0u);
  EXPECT_NE(of(Phases(0, 30, 40, 0, 0, 30, 0)).find("--strategy zero1"), std::string::npos);
  EXPECT_NE(of(Phases(0, 30, 40, 0, 0, 0, 30)).find("--checkpoint-every"), std::string::npos);
  config.strategy = WEFT_SHARD_FULL_SHARD;
  EXPECT_EQ(of(Phases(0, 30, 40, 0, 0, 30, 0)).find("--strategy"), std::string::npos);
  config.no_overlap = true;
  EXPECT_NE(of(Phases(0, 30, 40, 0, 30, 0, 0)).find("leave out --no-overlap"), std::string::npos);
  EXPECT_EQ(of(PhaseSeconds()), "No step was timed.");
}

TEST(Bottleneck, ARankForWhichOthersWaitComesFirst) {
  SpeedFacts facts{
      .phases = Phases(0, 30, 40, 0, 30, 0, 0), .ranks = 4, .slowest = 3, .slowdown = 1.25};
  EXPECT_EQ(BottleneckOf(TrainConfig(), facts).find("Rank 3 takes 25 % longer to compute"), 0u);
  facts.slowdown = 1.05;
  EXPECT_EQ(BottleneckOf(TrainConfig(), facts).find("Waiting for gradients"), 0u);
  facts.slowdown = 1.25;
  facts.phases = Phases(0, 30, 70, 0, 0, 0, 0);  // nobody waits
  EXPECT_EQ(BottleneckOf(TrainConfig(), facts).find("Computing takes 100 %"), 0u);
}

TEST(Bottleneck, IsComputingWhereNothingElseIs) {
  SpeedFacts facts{.phases = Phases(0.1, 30, 60, 1, 1, 5, 1)};
  EXPECT_EQ(BottleneckOf(TrainConfig(), facts), "Computing takes 92 % of a step, as it should.");
  facts.mfu = 0.2;
  EXPECT_NE(BottleneckOf(TrainConfig(), facts).find("only 20 %"), std::string::npos);
  facts.mfu = 0.7;
  EXPECT_NE(BottleneckOf(TrainConfig(), facts).find("at 70 %"), std::string::npos);
}

StepRecord Step(size_t step, double busy) {
  return {.step = step,
          .loss = 2,
          .loss_max = 2.5,
          .seconds = 0.5,
          .phases = Phases(0, busy, busy, 0.1, 0, 0, 0),
          .tokens = 200,
          .rank_tokens = 100};
}

// `count` ranks on machines of two, the last one slower.
RunRecord Done(size_t count) {
  RunRecord done;
  std::vector<RankFigures> ranks(count);
  for (size_t step = 1; step <= 10; step++) {
    for (size_t rank = 0; rank < count; rank++)
      ranks[rank].Add(Step(step, rank + 1 == count ? 0.15 : 0.1));
    if (step % 5 > 0) {
      done.Add(Step(step, 0.1), 400, {});
      continue;
    }
    for (size_t rank = 0; rank < count; rank++) {
      ranks[rank].machine = rank / 2;
      ranks[rank].peak_bytes = 1000 * (step + rank);
    }
    done.Add(Step(step, 0.1), 400, ranks);
    ranks.assign(count, RankFigures());
  }
  return done;
}

TEST(RunRecord, AddsUpWhatTheRanksExchange) {
  const RunRecord done = Done(3);
  EXPECT_EQ(done.steps, 10u);
  EXPECT_EQ(done.tokens, 2000);
  ASSERT_EQ(done.ranks.size(), 3u);
  EXPECT_EQ(done.ranks[2].steps, 10u);
  EXPECT_EQ(done.ranks[2].peak_bytes, 12000u);
  EXPECT_DOUBLE_EQ(done.TokensPerSecond(), 600);
  EXPECT_DOUBLE_EQ(done.MedianBusy(), 0.2);
  EXPECT_DOUBLE_EQ(done.BusyOf(2), 0.3);
  EXPECT_DOUBLE_EQ(done.MeanPhases()[Phase::kGather], 0.1);
  EXPECT_EQ(done.rates.size(), 10u);
  EXPECT_EQ(SlowestRank(done.ranks), 2);
}

TEST(RunRecord, BeginsAnewWithOtherRanks) {
  RunRecord done = Done(3);
  std::vector<RankFigures> figures(2);
  for (RankFigures& rank : figures)
    rank.Add(Step(11, 0.4));
  done.Add(Step(11, 0.1), 400, figures);
  ASSERT_EQ(done.ranks.size(), 2u);
  EXPECT_EQ(done.ranks[0].steps, 1u);
  EXPECT_DOUBLE_EQ(done.MedianBusy(), 0.8);
}

TEST(RunRecord, BeginsAnewWithAsManyOtherRanks) {
  RunRecord done = Done(3);
  done.RanksChanged();
  // One that has made no step says nothing of them yet.
  done.Add(Step(11, 0.1), 400, std::vector<RankFigures>(3));
  EXPECT_EQ(done.ranks[0].steps, 10u);
  std::vector<RankFigures> figures(3);
  for (size_t step = 12; step < 14; step++) {
    figures[0].Add(Step(step, 0.4));
    done.Add(Step(step, 0.4), 400, figures);
    figures = std::vector<RankFigures>(3);
  }
  EXPECT_EQ(done.ranks[0].steps, 2u);
  EXPECT_DOUBLE_EQ(done.BusyOf(0), 0.8);
  EXPECT_EQ(done.steps, 13u);
}

TEST(RankFigures, LeaveOutAStepThatAnotherRankMade) {
  RankFigures figures;
  StepRecord record = Step(1, 0.1);
  record.phases = Phases(0, 0, 0, 0, 0, 0, 0.5);  // this rank has only saved it
  record.rank_tokens = 0;
  figures.Add(record);
  EXPECT_EQ(figures.steps, 0u);
  EXPECT_EQ(figures.seconds, 0);
}

TEST(RankTime, AddsUpWhatTheRanksWereThere) {
  using std::chrono::seconds;
  const RankTime::Clock::time_point start;
  RankTime time(4, start);
  EXPECT_EQ(time.RankSeconds(start + seconds(10)), 40);
  EXPECT_FALSE(time.changed());
  time.Change(3, start + seconds(10));
  time.Change(3, start + seconds(20));  // one lost, and one joined
  EXPECT_EQ(time.RankSeconds(start + seconds(30)), 40 + 30 + 30);
  // Sent to a machine whose clock shows another time.
  const RankTime there(time.Sent(start + seconds(30)), start + seconds(1000));
  EXPECT_EQ(there.Seconds(start + seconds(1002)), 32);
  EXPECT_EQ(there.RankSeconds(start + seconds(1002)), 106);
  EXPECT_TRUE(there.changed());
}

class RunReport : public ::testing::Test {
 protected:
  RunReport() {
    config_.train.model = {256, 16, 24, 2, 2};
    config_.train = WithDefaults(config_.train, 4);
    curve_.train = {{1, 5}, {10, 2}};
    curve_.validation = {{10, 2.25}};
  }

  Page Make(size_t ranks) {
    done_ = Done(ranks);
    return MakeRunReport(Facts(ranks));
  }

  ReportFacts Facts(size_t ranks) {
    ReportFacts facts{.config = config_, .done = done_, .curve = curve_};
    facts.name = "a<b>|c";
    facts.final_loss = 2.25;
    facts.ranks = ranks;
    facts.seconds = 3600;
    facts.rank_seconds = 3600 * double(ranks);
    facts.gemm = GemmRate{.mean = 1e9, .peak = 2e9, .rows = 64};
    return facts;
  }

  static const Section& Find(const Page& page, const std::string& title) {
    const auto found = std::find_if(page.sections.begin(), page.sections.end(),
                                    [&](const Section& section) { return section.title == title; });
    static const Section none;
    EXPECT_NE(found, page.sections.end()) << title;
    return found == page.sections.end() ? none : *found;
  }

  static std::string Cell(const Section& section, const std::string& what) {
    for (const auto& row : section.table.rows) {
      if (row[0] == what) return row[1];
    }
    return "no row " + what;
  }

  ProgramConfig config_;
  Curve curve_;
  RunRecord done_;
};

TEST_F(RunReport, HasTheFiguresOfTheRun) {
  config_.price_per_hour = 2;
  const Page page = Make(4);
  const Section& speed = Find(page, "Speed");
  EXPECT_EQ(Cell(speed, "tokens/s, all ranks"), "800");
  EXPECT_EQ(Cell(speed, "tokens/s, each rank"), "200");
  const double flops = 200 * FlopsPerToken(config_.train.model);
  EXPECT_DOUBLE_EQ(MfuOf(Facts(4)), flops / 2e9);
  const Section& ranks = Find(page, "Ranks");
  EXPECT_EQ(ranks.table.rows.size(), 4u);
  EXPECT_NE(ranks.text.find("Rank 3 computes the longest: 50 % longer"), std::string::npos);
  const Section& machines = Find(page, "Machines");
  ASSERT_EQ(machines.table.rows.size(), 2u);
  EXPECT_EQ(machines.table.rows[1], (std::vector<std::string>{"1", "2", "400"}));
  EXPECT_EQ(Cell(Find(page, "Cost"), "cost"), "8 at 2 an hour");
  EXPECT_EQ(Cell(Find(page, "Options"), "--width"), "24");
  EXPECT_EQ(Cell(Find(page, "Options"), "--lr"), "no row --lr");
}

TEST_F(RunReport, ShowsTheSlowestOfManyRanks) {
  const Page page = Make(100);
  const Section& ranks = Find(page, "Ranks");
  EXPECT_EQ(ranks.table.rows.size(), 32u);
  EXPECT_EQ(ranks.table.rows.back()[0], "99");
  EXPECT_NE(ranks.text.find("32 of 100 ranks"), std::string::npos);
  const std::string& bars = Find(page, "Where the time of a step goes").pictures.at(0);
  EXPECT_EQ(Count(bars, "class=\"backward\""), 13u);  // the mean, and 12 ranks
  EXPECT_NE(bars.find(">rank 99<"), std::string::npos);
}

TEST_F(RunReport, OfAStartThatMadeNoStepHasNoSpeed) {
  const Page page = MakeRunReport(Facts(2));
  for (const Section& section : page.sections)
    EXPECT_NE(section.title, "Speed");
  EXPECT_EQ(HtmlOf(page).find("nan"), std::string::npos);
  EXPECT_EQ(MarkdownOf(page).find("inf"), std::string::npos);
}

TEST_F(RunReport, SaysOnlyWhatItKnowsOfChangedRanks) {
  config_.price_per_hour = 2;
  done_ = Done(4);
  ReportFacts facts = Facts(3);  // one was lost in the last minutes
  facts.ranks_changed = true;
  facts.rank_seconds = 3.9 * 3600;
  const Page page = MakeRunReport(facts);
  EXPECT_EQ(Cell(Find(page, "Cost"), "device-hours").find("3.9 (of all ranks"), 0u);
  EXPECT_EQ(Cell(Find(page, "Cost"), "cost"), "7.8 at 2 an hour");
  EXPECT_EQ(Cell(Find(page, "Speed"), "tokens/s, each rank"), "200");
}

TEST_F(RunReport, LeavesOutWhatWasNotMeasured) {
  ReportFacts facts = Facts(2);
  const auto measured = [&](size_t row) {
    return Find(MakeRunReport(facts), "Communication").table.rows.at(row).at(2);
  };
  EXPECT_EQ(measured(0), "");
  EXPECT_EQ(measured(1), "");
  const auto pool = [&] {
    return Find(MakeRunReport(facts), "Memory").table.rows.at(3).at(2);
  };
  EXPECT_EQ(pool(), "");
  facts.traffic = weft_shard_step_result_t{};
  facts.traffic->reduced_bytes = 3000;
  facts.traffic->pool_bytes = 5000;
  EXPECT_EQ(measured(0), FormatBytes(3000));
  EXPECT_EQ(pool(), FormatBytes(5000));
}

TEST_F(RunReport, EscapesWhatUsersName) {
  const Page page = Make(2);
  EXPECT_NE(HtmlOf(page).find("a&lt;b>|c"), std::string::npos);
  EXPECT_NE(MarkdownOf(page).find("a\\<b>\\|c"), std::string::npos);
  EXPECT_EQ(HtmlOf(page).find("<script"), std::string::npos);
  EXPECT_EQ(HtmlOf(page).find("href"), std::string::npos);
}

TEST(PhaseBars, HaveOneScaleAndNoPartOfNothing) {
  const std::string svg = PhaseBarsSvg(
      {{"mean", Phases(0, 1, 1, 0, 0, 0, 0)}, {"rank <1>", Phases(0, 0.5, 0.5, 0, 0, 0, 0)}});
  EXPECT_EQ(Count(svg, "class=\"forward\""), 2u);
  EXPECT_EQ(Count(svg, "class=\"data\""), 0u);
  EXPECT_EQ(Count(svg, "width=\"340.0\""), 2u);
  EXPECT_EQ(Count(svg, "width=\"170.0\""), 2u);
  EXPECT_NE(svg.find("rank &lt;1>"), std::string::npos);
  EXPECT_EQ(PhaseBarsSvg({{"none", PhaseSeconds()}}).find("nan"), std::string::npos);
}

// The plan has padding, so it is a little more; and what a book counts is what the library does.
TEST(TheorySentBytes, AreThoseOfThePlan) {
  for (const auto strategy : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                              WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD}) {
    for (const size_t ranks : {2, 4}) {
      for (const NumberType type : {NumberType::kFloat32, NumberType::kBf16}) {
        TrainConfig config;
        config.strategy = strategy;
        config.param_type = type;
        config = WithDefaults(config, ranks);
        const double theory = TheorySentBytes(config, ranks);
        const double plan = double(PlanRun(config, 0, ranks).sharding.sent_bytes);
        EXPECT_NEAR(plan / theory, 1, 0.05)
            << weft_shard_preset_name(strategy) << ", " << ranks << " ranks, " << BytesOf(type);
      }
    }
  }
}

}  // namespace
}  // namespace weft::trainer::run_report_test
