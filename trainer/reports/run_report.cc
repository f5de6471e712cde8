// Rates, phases and memory are of this start of the program; the curves are of the whole run, as
// far as its metrics have it.
#include "trainer/reports/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "trainer/dry_run.h"
#include "trainer/model_units.h"
#include "trainer/option_table.h"
#include "trainer/reports/bottleneck.h"
#include "trainer/reports/phase_bars.h"
#include "trainer/reports/sent_bytes.h"

namespace weft::trainer {
namespace {

constexpr size_t kRanksShown = 32;
constexpr size_t kBarsShown = 12;

// Those that the figures are of: some may have been lost or joined since.
double RankCount(const RunRecord& done) {
  return double(std::max<size_t>(done.ranks.size(), 1));
}

double StepSeconds(const RunRecord& done) {
  return done.steps > 0 ? done.seconds / double(done.steps) : 0;
}

// Ranks, the one that computes the longest first.
std::vector<size_t> BySpeed(const RunRecord& done) {
  std::vector<size_t> order(done.ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return done.BusyOf(a) > done.BusyOf(b); });
  return order;
}

// Those that are shown, in order.
std::vector<size_t> Shown(const RunRecord& done, size_t count) {
  std::vector<size_t> ranks = BySpeed(done);
  ranks.resize(std::min(ranks.size(), count));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

SpeedFacts SpeedOf(const ReportFacts& facts) {
  SpeedFacts speed;
  speed.phases = facts.done.MeanPhases();
  speed.ranks = facts.done.ranks.size();
  speed.slowest = SlowestRank(facts.done.ranks);
  speed.mfu = MfuOf(facts);
  const double median = facts.done.MedianBusy();
  if (speed.slowest >= 0 && median > 0)
    speed.slowdown = facts.done.BusyOf(size_t(speed.slowest)) / median;
  return speed;
}

Section Result(const ReportFacts& facts) {
  const TrainConfig& t = facts.config.train;
  const Curve& curve = facts.curve;
  Section section{.title = "Result", .table = {{"", ""}, {}}};
  const auto row = [&](const std::string& what, const std::string& value) {
    section.table.rows.push_back({what, value});
  };
  row("validation loss", fmt::format("{:.4f} nats per {}, {:.3f} bits", facts.final_loss,
                                     facts.unit, facts.final_loss / std::log(2.0)));
  if (curve.order3 > 0)
    row("order-3 byte model", fmt::format("{:.4f} nats per byte", curve.order3));
  if (!curve.train.empty()) {
    row("training loss",
        fmt::format("{:.4f} in step {:.0f}, {:.4f} in step {:.0f}", curve.train.front().loss,
                    curve.train.front().step, curve.train.back().loss, curve.train.back().step));
  }
  if (facts.ranks > 1 && facts.done.steps > 0 && std::isfinite(facts.done.last.loss_max))
    row("largest mean loss of a rank, last step", fmt::format("{:.4f}", facts.done.last.loss_max));
  row("model", fmt::format("{} parameters: {} layers x {}, {}, {} tokens of context",
                           FormatCount(double(ParameterCount(ModelUnits(t.model)))), t.model.layers,
                           t.model.width, DescribeHeads(t.model), t.model.seq));
  row("trained by this start",
      fmt::format("{}, {} tokens", Counted(facts.done.steps, "step", "steps"),
                  FormatCount(facts.done.tokens)));
  if (facts.done.skipped > 0)
    row("steps that updated nothing", fmt::format("{}", facts.done.skipped));
  Curve drawn = curve;
  if (facts.ranks > 1) {
    for (const ChartPoint& point : facts.done.loss_maxs)
      drawn.train_max.push_back({point.x, point.y});
  }
  section.pictures = {CurveSvg(drawn, "loss", "", facts.unit)};
  return section;
}

Section Speed(const ReportFacts& facts) {
  const RunRecord& done = facts.done;
  Section section{.title = "Speed", .text = BottleneckOf(facts), .table = {{"", ""}, {}}};
  const auto row = [&](const std::string& what, const std::string& value) {
    section.table.rows.push_back({what, value});
  };
  const double rate = done.TokensPerSecond();
  row("tokens/s, all ranks", fmt::format("{:.0f}", rate));
  row("tokens/s, each rank", fmt::format("{:.0f}", rate / RankCount(done)));
  row("a step", FormatSeconds(StepSeconds(done)));
  const double flops = rate / RankCount(done) * FlopsPerToken(facts.config.train.model);
  row("a rank computes", FormatFlops(flops) + "FLOP/s");
  if (facts.gemm) {
    row("its fastest matrix product, measured at the start",
        fmt::format("{}FLOP/s, {}", FormatFlops(facts.gemm->peak),
                    NameOf(facts.config.train.precision)));
    row("MFU, the one as part of the other", fmt::format("{:.1f} %", 100 * MfuOf(facts)));
  } else {
    row("MFU", "not known: the rate of matrix products was not measured");
  }
  LineChart chart{.title = "tokens/s",
                  .subtitle = "all ranks, smoothed",
                  .y_label = "tokens per second",
                  .from_zero = true};
  chart.lines = {{"train", "", Thinned(done.rates, 400)}};
  section.pictures = {LineChartSvg(chart)};
  return section;
}

Section Phases(const ReportFacts& facts) {
  const RunRecord& done = facts.done;
  const PhaseSeconds mean = done.MeanPhases();
  Section section{.title = "Where the time of a step goes",
                  .text =
                      "Seconds of a step, the mean of all; gather and reduce are waiting for "
                      "other ranks that computing does not hide.",
                  .table = {{"phase", "mean of the ranks", "part"}, {}}};
  std::vector<PhaseBar> bars = {{"mean", mean}};
  for (const size_t rank : Shown(done, kBarsShown)) {
    const double steps = double(std::max<size_t>(done.ranks[rank].steps, 1));
    if (done.ranks.size() > 1)
      bars.push_back({fmt::format("rank {}", rank), done.ranks[rank].phases / steps});
  }
  section.pictures = {PhaseBarsSvg(bars)};
  for (size_t i = 0; i < kPhases; i++) {
    const double seconds = mean[Phase(i)];
    section.table.rows.push_back(
        {kPhaseNames[i], FormatSeconds(seconds),
         fmt::format("{:.1f} %", 100 * seconds / std::max(mean.Sum(), 1e-12))});
  }
  return section;
}

Section Ranks(const ReportFacts& facts) {
  const RunRecord& done = facts.done;
  Section section{
      .title = "Ranks",
      .table = {{"rank", "machine", "tokens/s", "a step", "computes", "waits", "most memory"}, {}}};
  const SpeedFacts speed = SpeedOf(facts);
  if (speed.slowest >= 0 && done.ranks.size() > 1) {
    section.text =
        fmt::format("Rank {} computes the longest: {:.0f} % longer than the middle rank.",
                    speed.slowest, 100 * (speed.slowdown - 1));
  }
  if (done.ranks.size() > kRanksShown) {
    section.text += fmt::format(" The {} of {} ranks that compute the longest are shown.",
                                kRanksShown, done.ranks.size());
  }
  for (const size_t rank : Shown(done, kRanksShown)) {
    const RankFigures& r = done.ranks[rank];
    const double steps = double(std::max<size_t>(r.steps, 1));
    section.table.rows.push_back(
        {fmt::format("{}", rank), fmt::format("{}", r.machine),
         fmt::format("{:.0f}", r.TokensPerSecond()), FormatSeconds(r.seconds / steps),
         FormatSeconds(done.BusyOf(rank)),
         FormatSeconds((r.phases[Phase::kGather] + r.phases[Phase::kReduce]) / steps),
         FormatBytes(r.peak_bytes)});
  }
  return section;
}

Section Machines(const RunRecord& done) {
  std::map<size_t, std::pair<size_t, double>> machines;  // ranks, tokens/s
  for (const RankFigures& rank : done.ranks) {
    machines[rank.machine].first++;
    machines[rank.machine].second += rank.TokensPerSecond();
  }
  Section section{.title = "Machines", .table = {{"machine", "ranks", "tokens/s"}, {}}};
  for (const auto& [machine, sums] : machines) {
    section.table.rows.push_back({fmt::format("{}", machine), fmt::format("{}", sums.first),
                                  fmt::format("{:.0f}", sums.second)});
  }
  return section;
}

Section Memory(const ReportFacts& facts) {
  const weft_shard_plan_t& plan = facts.plan.sharding;
  uint64_t most = 0;
  for (const RankFigures& rank : facts.done.ranks)
    most = std::max(most, rank.peak_bytes);
  Section section{.title = "Memory",
                  .text =
                      "The plan has what training takes on rank 0. A process has its program, "
                      "libraries, and text that was read besides.",
                  .table = {{"", "plan", "measured"}, {}}};
  const auto row = [&](const char* what, uint64_t planned, const std::string& measured) {
    section.table.rows.push_back({what, FormatBytes(planned), measured});
  };
  row("parameters", plan.param_bytes, "");
  row("gradients", plan.grad_bytes, "");
  row("optimizer state", plan.optimizer_bytes, "");
  row("pool of gathered parameters and gradients", plan.pool_bytes,
      facts.traffic ? FormatBytes(facts.traffic->pool_bytes) : "");
  row("activations", facts.plan.activation_bytes, "");
  row("all of it; the largest process of any rank", facts.plan.Bytes(),
      most > 0 ? FormatBytes(most) : "");
  return section;
}

Section Communication(const ReportFacts& facts) {
  const weft_shard_plan_t& plan = facts.plan.sharding;
  Section section{.title = "Communication",
                  .text = "Bytes of a step, on rank 0.",
                  .table = {{"", "plan", "measured", "theory"}, {}}};
  const auto measured = [&](uint64_t weft_shard_step_result_t::*bytes) {
    return facts.traffic ? FormatBytes((*facts.traffic).*bytes) : "";
  };
  const double theory = TheorySentBytes(facts.config.train, facts.ranks);
  section.table.rows = {{"reduced", FormatBytes(plan.traffic_bytes),
                         measured(&weft_shard_step_result_t::reduced_bytes), ""},
                        {"gathered", FormatBytes(plan.gather_bytes),
                         measured(&weft_shard_step_result_t::gathered_bytes), ""},
                        {"sent by a rank", FormatBytes(plan.sent_bytes), "",
                         theory > 0 ? fmt::format("{}: {:.3f} of it", FormatBytes(uint64_t(theory)),
                                                  double(plan.sent_bytes) / theory)
                                    : ""}};
  return section;
}

Section Cost(const ReportFacts& facts) {
  const double hours = facts.rank_seconds / 3600;
  const std::string ranks =
      facts.ranks_changed
          ? "of all ranks, those that were lost or joined for as long as they were there"
          : fmt::format("{} x {}", Counted(facts.ranks, "rank", "ranks"),
                        FormatSeconds(facts.seconds));
  Section section{.title = "Cost", .table = {{"", ""}, {}}};
  section.table.rows = {{"time of this start", FormatSeconds(facts.seconds)},
                        {"device-hours", fmt::format("{:.4g} ({})", hours, ranks)}};
  const double price = facts.config.price_per_hour;
  section.table.rows.push_back(
      {"cost", price > 0 ? fmt::format("{:.4g} at {:g} an hour", hours * price, price)
                         : "no --price-per-hour was given"});
  return section;
}

// The options that are other ones than in a run without any.
Section Options(const ReportFacts& facts) {
  ProgramConfig plain;
  ChooseDefaults(plain);
  plain.train = WithDefaults(plain.train, facts.ranks);
  std::map<std::string, std::string> presets;
  for (const ResolvedOption& option : ResolvedOptions(plain))
    presets[option.key] = option.value;
  Section section{.title = "Options", .table = {{"option", "value"}, {}}};
  for (const ResolvedOption& option : ResolvedOptions(facts.config)) {
    if (option.value != presets[option.key])
      section.table.rows.push_back({"--" + option.key, option.value});
  }
  section.text = section.table.rows.empty() ? "All are the defaults." : "What is no default:";
  return section;
}

}  // namespace

double MfuOf(const ReportFacts& facts) {
  if (!facts.gemm || !(facts.gemm->peak > 0)) return 0;
  const double of_a_rank = facts.done.TokensPerSecond() / RankCount(facts.done);
  return of_a_rank * FlopsPerToken(facts.config.train.model) / facts.gemm->peak;
}

std::string BottleneckOf(const ReportFacts& facts) {
  return BottleneckOf(facts.config.train, SpeedOf(facts));
}

Page MakeRunReport(const ReportFacts& facts) {
  const TrainConfig& t = facts.config.train;
  Page page;
  page.title = "weft_train: " + facts.name;
  page.subtitle =
      fmt::format("{}, {}, {} products; step {} of {}", Counted(facts.ranks, "rank", "ranks"),
                  weft_shard_preset_name(t.strategy), NameOf(t.precision),
                  facts.curve.train.empty() ? 0 : facts.curve.train.back().step, t.steps);
  page.sections.push_back(Result(facts));
  // A start that found all steps done has nothing to tell of them.
  if (facts.done.TokensPerSecond() > 0) {
    page.sections.push_back(Speed(facts));
    page.sections.push_back(Phases(facts));
    page.sections.push_back(Ranks(facts));
    page.sections.push_back(Machines(facts.done));
  }
  page.sections.push_back(Memory(facts));
  if (facts.ranks > 1) page.sections.push_back(Communication(facts));
  page.sections.push_back(Cost(facts));
  page.sections.push_back(Options(facts));
  return page;
}

}  // namespace weft::trainer
