#include <algorithm>

#include <fmt/format.h>

#include "cli/weftctl/plan_report.h"

namespace weft {
namespace {

// One unit for all bytes of a table, so that its columns compare.
struct Unit {
  const char* name;
  double bytes;

  std::string Of(double value) const {
    return value == 0 ? "-" : fmt::format("{:.2f}", value / bytes);
  }
};

// Two digits behind the point should say something of the smaller numbers too.
Unit UnitFor(double largest) {
  constexpr Unit kUnits[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}};
  for (const Unit& unit : kUnits) {
    if (largest >= 10 * unit.bytes) return unit;
  }
  return {"B", 1};
}

Unit UnitFor(const PlanReport& report) {
  double largest = 0;
  for (const Estimate& one : report.estimates)
    largest = std::max(largest, one.peak_bytes);
  return UnitFor(largest);
}

std::string Head(const EstimateInput& input) {
  const BytesPerElement& mix = input.mix;
  std::string text = fmt::format("model: {:.10g} params, {:.10g} in the largest unit\n",
                                 input.param_count, input.largest_unit);
  text +=
      fmt::format("bytes per param: {:g} param, {:g} main copy, {:g} gradient, {:g} optimizer\n",
                  mix.params, mix.main, mix.gradients, mix.optimizer);
  text += fmt::format("{} ranks", input.ranks);
  if (input.shard_group > 0) text += fmt::format(" in shard groups of {}", input.shard_group);
  text +=
      fmt::format("; {} per step, accumulation {}\n",
                  input.micro_batches == 1 ? "1 micro-batch"
                                           : fmt::format("{} micro-batches", input.micro_batches),
                  AccumulationName(input.accumulation));
  return text;
}

constexpr char kRow[] = "{:<13} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}  {}";
// The widths of what kRow has at rest, on top of it, at the peak and sent.
constexpr char kGroups[] = "{:<13} {:-^46} {:-^17} {:8} {:-^17}\n";

// A line without blanks at its end.
std::string Line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Row(const EstimateInput& input, const Estimate& estimate, const Unit& unit) {
  const RestBytes& rest = estimate.rest;
  const char* const fits = input.budget_bytes == 0 ? "" : estimate.fits ? "yes" : "no";
  return Line(fmt::format(kRow, StrategyName(estimate.strategy), unit.Of(rest.params),
                          unit.Of(rest.main), unit.Of(rest.gradients), unit.Of(rest.optimizer),
                          unit.Of(rest.Total()), unit.Of(estimate.forward_bytes),
                          unit.Of(estimate.backward_bytes), unit.Of(estimate.peak_bytes),
                          unit.Of(estimate.sent_bytes),
                          fmt::format("{:.2f}", estimate.sent.Total() / input.param_count), fits));
}

std::string Table(const PlanReport& report, const Unit& unit) {
  std::string text = "\n";
  text += fmt::format(kGroups, fmt::format("{} per rank", unit.name), " at rest ", " on top of it ",
                      "", " sent per step ");
  text += Line(fmt::format(kRow, "strategy", "params", "main", "gradients", "optimizer", "total",
                           "forward", "backward", "peak", unit.name, "x params",
                           report.input.budget_bytes == 0 ? "" : "fits"));
  for (const Estimate& one : report.estimates)
    text += Row(report.input, one, unit);
  return text;
}

// What the table has no column for.
std::string Remarks(const PlanReport& report) {
  const EstimateInput& input = report.input;
  std::string text = "\n";
  for (const Estimate& one : report.estimates) {
    const double all = input.param_count;
    if (one.strategy == Strategy::kFraction) {
      text +=
          fmt::format("fraction keeps {:.0f} % of the params gathered from forward to backward\n",
                      100 * one.kept_params / all);
    }
    if (one.strategy != Strategy::kHybridShard && one.strategy != Strategy::kHpz) continue;
    text += fmt::format("{} sends {:.2f} x params inside shard groups, {:.2f} x params beyond\n",
                        StrategyName(one.strategy), one.sent.inside / all,
                        (one.sent.all + one.sent.across) / all);
  }
  if (input.shard_group == 0) text += "hybrid and hpz: with --shard-group RANKS\n";
  if (input.budget_bytes == 0)
    text += "fraction, which strategies fit and which to take: with --budget BYTES\n";
  return text + "not counted: activations, padding, the memory of process groups\n";
}

std::string Choice(const PlanReport& report, const Unit& unit) {
  if (report.input.budget_bytes == 0) return "";
  const std::string budget = fmt::format("{} {}", unit.Of(report.input.budget_bytes), unit.name);
  if (const Estimate* const choice = ChooseEstimate(report.estimates)) {
    return fmt::format(
        "take {}: of those that fit {} it sends least, {} {} per step; {} {} are left\n",
        StrategyName(choice->strategy), budget, unit.Of(choice->sent_bytes), unit.name,
        unit.Of(report.input.budget_bytes - choice->peak_bytes), unit.name);
  }
  const auto least = std::min_element(
      report.estimates.begin(), report.estimates.end(),
      [](const Estimate& a, const Estimate& b) { return a.peak_bytes < b.peak_bytes; });
  return fmt::format("none fits {}: {} takes least, {} {}; more ranks or smaller units take less\n",
                     budget, StrategyName(least->strategy), unit.Of(least->peak_bytes), unit.name);
}

const char* Offloaded(const DeepSpeedRow& row) {
  if (row.offloads_params) return "params, optimizer";
  return row.offloads_optimizer ? "optimizer" : "nothing";
}

// In DeepSpeed's unit, so that its documentation and output compare.
std::string DeepSpeedTable(const std::vector<DeepSpeedRow>& rows) {
  if (rows.empty()) return "";
  constexpr double kGib = 1 << 30;
  std::string text =
      fmt::format("\nwhat DeepSpeed's estimator says, in GiB\n{:<6} {:<17} {:>9} {:>9} {:>15}\n",
                  "stage", "offloaded", "per rank", "per host", "with zero.Init");
  for (const DeepSpeedRow& row : rows) {
    text += fmt::format("{:<6} {:<17} {:>9.2f} {:>9.2f} {:>15.2f}\n", row.stage, Offloaded(row),
                        row.device_bytes / kGib, row.host_bytes / kGib, row.host_bytes_cut / kGib);
  }
  return text;
}

}  // namespace

const char* AccumulationName(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::kLocalThenReduce:
      return "local";
    case Accumulation::kReduceEvery:
      return "every";
    case Accumulation::kInnerEveryOuterLast:
      return "inner";
  }
  return "unknown";
}

std::string PlanAsText(const PlanReport& report) {
  const Unit unit = UnitFor(report);
  return Head(report.input) + Table(report, unit) + Remarks(report) + Choice(report, unit) +
         DeepSpeedTable(report.deepspeed);
}

}  // namespace weft
