// PrintPlan. One report, made of the command line, and its two forms.
#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "shard/layout/placement.h"
#include "shard/plan/deepspeed_estimate.h"
#include "shard/plan/estimate.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct PlanReport {
  EstimateInput input;
  std::vector<Estimate> estimates;      // of `input`
  std::vector<DeepSpeedRow> deepspeed;  // empty if it was not asked for
};

// As the command line has it.
const char* AccumulationName(weft_shard_accumulation_t accumulation) {
  switch (accumulation) {
    case WEFT_SHARD_LOCAL_THEN_REDUCE:
      return "local";
    case WEFT_SHARD_REDUCE_EVERY:
      return "every";
    case WEFT_SHARD_INNER_EVERY_OUTER_LAST:
      return "inner";
  }
  return "unknown";
}

constexpr Suffix kCountSuffixes[] = {{"K", 1'000},
                                     {"M", 1'000'000},
                                     {"B", 1'000'000'000},
                                     {"G", 1'000'000'000},
                                     {"T", 1'000'000'000'000}};

absl::StatusOr<double> ReadCount(const char* option, const std::string& text) {
  double value = 0;
  if (ParseQuantity(text, kCountSuffixes, &value)) return value;
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat(option, " \"", text, "\" is no number like 7e9, 350M or 7B"));
}

absl::StatusOr<BytesPerElement> ReadMix(const std::string& name) {
  if (name == "fp32") return kFp32Mix;
  if (name == "fp16") return kFp16Mix;
  if (name == "bf16") return kBf16Mix;
  BytesPerElement mix;
  double* const bytes[] = {&mix.params, &mix.main, &mix.gradients, &mix.optimizer};
  std::string_view rest = name;
  for (int i = 0; i < 4; ++i) {
    const size_t comma = rest.find(',');
    const bool last = comma == std::string_view::npos;
    if (last != (i == 3) || !ParseQuantity(rest.substr(0, comma), {}, bytes[i])) {
      return MakeError(
          WEFT_INVALID_ARGUMENT,
          StrCat("--mix \"", name, "\" is neither fp32, fp16 nor bf16, nor four numbers of bytes ",
                 "like 2,4,4,8: params, main copy, gradients, optimizer"));
    }
    if (!last) rest.remove_prefix(comma + 1);
  }
  return mix;
}

absl::StatusOr<weft_shard_accumulation_t> ReadAccumulation(const std::string& name) {
  for (const weft_shard_accumulation_t one :
       {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY, WEFT_SHARD_INNER_EVERY_OUTER_LAST}) {
    if (name == AccumulationName(one)) return one;
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--accumulation \"", name, "\" is none of local, every and inner"));
}

absl::StatusOr<double> ReadLargestUnit(const PlanArguments& arguments, double params) {
  if (!arguments.largest_unit.empty()) return ReadCount("--largest-unit", arguments.largest_unit);
  if (arguments.units >= 1) return params / arguments.units;
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--units ", arguments.units, ": a model has at least one"));
}

absl::StatusOr<double> ReadBudget(const std::string& text) {
  double bytes = 0;
  if (text.empty() || (ParseQuantity(text, kByteSuffixes, &bytes) && bytes > 0)) return bytes;
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--budget \"", text,
                          "\" is no number of bytes above 0 like 40GB (10^9) or 40GiB (2^30)"));
}

absl::StatusOr<EstimateInput> ReadInput(const PlanArguments& arguments) {
  EstimateInput input{.ranks = arguments.ranks,
                      .micro_batches = arguments.micro_batches,
                      .shard_group = arguments.shard_group};
  WEFT_ASSIGN_OR_RETURN(input.param_count, ReadCount("--params", arguments.params));
  WEFT_ASSIGN_OR_RETURN(input.mix, ReadMix(arguments.mix));
  WEFT_ASSIGN_OR_RETURN(input.largest_unit, ReadLargestUnit(arguments, input.param_count));
  WEFT_ASSIGN_OR_RETURN(input.accumulation, ReadAccumulation(arguments.accumulation));
  WEFT_ASSIGN_OR_RETURN(input.budget_bytes, ReadBudget(arguments.budget));
  WEFT_RETURN_IF_ERROR(CheckEstimateInput(input));
  return input;
}

absl::Status AddDeepSpeed(const PlanArguments& arguments, PlanReport* report) {
  if (!arguments.deepspeed) return absl::OkStatus();
  const int ranks = report->input.ranks;
  const int per_node = arguments.ranks_per_node == 0 ? ranks : arguments.ranks_per_node;
  if (per_node < 1 || ranks % per_node != 0) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("--ranks-per-node ", per_node, ": ", ranks,
                                                   " ranks do not fill such nodes"));
  }
  report->deepspeed = DeepSpeedRows({.param_count = report->input.param_count,
                                     .largest_layer = report->input.largest_unit,
                                     .ranks = ranks,
                                     .ranks_per_node = per_node});
  return absl::OkStatus();
}

absl::StatusOr<PlanReport> Plan(const PlanArguments& arguments) {
  PlanReport report;
  WEFT_ASSIGN_OR_RETURN(report.input, ReadInput(arguments));
  report.estimates = EstimateAll(report.input);
  WEFT_RETURN_IF_ERROR(AddDeepSpeed(arguments, &report));
  return report;
}

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
    if (one.strategy == WEFT_SHARD_FRACTION) {
      text +=
          fmt::format("fraction keeps {:.0f} % of the params gathered from forward to backward\n",
                      100 * one.kept_params / all);
    }
    if (one.strategy != WEFT_SHARD_HYBRID_SHARD && one.strategy != WEFT_SHARD_HPZ) continue;
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

std::string PlanAsText(const PlanReport& report) {
  const Unit unit = UnitFor(report);
  return Head(report.input) + Table(report, unit) + Remarks(report) + Choice(report, unit) +
         DeepSpeedTable(report.deepspeed);
}

Json InputAsJson(const EstimateInput& input) {
  Json json;
  json["params"] = input.param_count;
  json["ranks"] = input.ranks;
  json["element_bytes"] = {{"params", input.mix.params},
                           {"main", input.mix.main},
                           {"gradients", input.mix.gradients},
                           {"optimizer", input.mix.optimizer}};
  json["largest_unit"] = input.largest_unit;
  json["micro_batches"] = input.micro_batches;
  json["accumulation"] = AccumulationName(input.accumulation);
  json["shard_group"] = input.shard_group > 0 ? Json(input.shard_group) : Json();
  json["budget_bytes"] = input.budget_bytes > 0 ? Json(input.budget_bytes) : Json();
  return json;
}

Json EstimateAsJson(const Estimate& estimate, bool budget) {
  const RestBytes& rest = estimate.rest;
  Json json;
  json["strategy"] = StrategyName(estimate.strategy);
  json["rest_bytes"] = {{"params", rest.params},
                        {"main", rest.main},
                        {"gradients", rest.gradients},
                        {"optimizer", rest.optimizer},
                        {"total", rest.Total()}};
  json["kept_params"] = estimate.kept_params;
  json["forward_bytes"] = estimate.forward_bytes;
  json["backward_bytes"] = estimate.backward_bytes;
  json["peak_bytes"] = estimate.peak_bytes;
  json["sent_elements"] = {{"all", estimate.sent.all},
                           {"inside", estimate.sent.inside},
                           {"across", estimate.sent.across},
                           {"total", estimate.sent.Total()}};
  json["sent_bytes"] = estimate.sent_bytes;
  json["fits"] = budget ? Json(estimate.fits) : Json();
  return json;
}

Json DeepSpeedAsJson(const DeepSpeedRow& row) {
  Json json;
  json["stage"] = row.stage;
  json["offload_params"] = row.offloads_params;
  json["offload_optimizer"] = row.offloads_optimizer;
  json["device_bytes"] = row.device_bytes;
  json["host_bytes"] = row.host_bytes;
  json["host_bytes_zero_init"] = row.host_bytes_cut;
  return json;
}

// In bytes and elements.
std::string PlanAsJson(const PlanReport& report) {
  const bool budget = report.input.budget_bytes > 0;
  Json strategies = Json::array();
  for (const Estimate& one : report.estimates)
    strategies.push_back(EstimateAsJson(one, budget));
  const Estimate* const choice = budget ? ChooseEstimate(report.estimates) : nullptr;
  Json whole;
  whole["version"] = 1;
  whole["input"] = InputAsJson(report.input);
  whole["strategies"] = std::move(strategies);
  whole["choice"] = choice == nullptr ? Json() : Json(StrategyName(choice->strategy));
  if (!report.deepspeed.empty()) {
    Json& rows = whole["deepspeed"] = Json::array();
    for (const DeepSpeedRow& row : report.deepspeed)
      rows.push_back(DeepSpeedAsJson(row));
  }
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandOutput PrintPlan(const PlanArguments& arguments, bool json) {
  const absl::StatusOr<PlanReport> report = Plan(arguments);
  if (!report.ok()) return {"", {std::string(report.status().message())}};
  return {json ? PlanAsJson(*report) : PlanAsText(*report), {}};
}

}  // namespace weft
