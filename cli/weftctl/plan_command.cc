// PrintPlan. Text and JSON are two forms of one PlanReport, so that they cannot disagree. In the text all bytes have one unit
// (UnitFor), so that columns compare; JSON has bytes and elements.
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
#include "shard/plan/estimate.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct PlanReport {
  EstimateInput input;
  std::vector<Estimate> estimates;  // of `input`
};

// As the command line has them, by number.
constexpr const char* kAccumulationNames[] = {"local", "every", "inner"};

constexpr const char* kViewsNames[] = {"move", "stable", "apart"};

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
  const auto* const found =
      std::find(std::begin(kAccumulationNames), std::end(kAccumulationNames), name);
  if (found != std::end(kAccumulationNames)) {
    return static_cast<weft_shard_accumulation_t>(found - kAccumulationNames);
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--accumulation \"", name, "\" is none of local, every and inner"));
}

absl::StatusOr<weft_shard_views_t> ReadViews(const std::string& name) {
  const auto* const found = std::find(std::begin(kViewsNames), std::end(kViewsNames), name);
  if (found != std::end(kViewsNames)) return static_cast<weft_shard_views_t>(found - kViewsNames);
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("--views \"", name, "\" is none of move, stable and apart"));
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
                      .shard_group = arguments.shard_group,
                      .offload = arguments.offload,
                      .offload_params = arguments.offload_params};
  WEFT_ASSIGN_OR_RETURN(input.param_count, ReadCount("--params", arguments.params));
  WEFT_ASSIGN_OR_RETURN(input.mix, ReadMix(arguments.mix));
  WEFT_ASSIGN_OR_RETURN(input.largest_unit, ReadLargestUnit(arguments, input.param_count));
  WEFT_ASSIGN_OR_RETURN(input.accumulation, ReadAccumulation(arguments.accumulation));
  WEFT_ASSIGN_OR_RETURN(input.budget_bytes, ReadBudget(arguments.budget));
  WEFT_ASSIGN_OR_RETURN(input.views, ReadViews(arguments.views));
  WEFT_RETURN_IF_ERROR(CheckEstimateInput(input));
  return input;
}

absl::StatusOr<PlanReport> Plan(const PlanArguments& arguments) {
  PlanReport report;
  WEFT_ASSIGN_OR_RETURN(report.input, ReadInput(arguments));
  report.estimates = EstimateAll(report.input);
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
                  kAccumulationNames[input.accumulation]);
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
std::string Remarks(const PlanReport& report, const Unit& unit) {
  const EstimateInput& input = report.input;
  std::string text = "\n";
  for (const Estimate& one : report.estimates) {
    if (one.views_bytes > 0) {
      text += fmt::format("{} takes {} {} for {} views, more than for views that move\n",
                          StrategyName(one.strategy), unit.Of(one.views_bytes), unit.name,
                          kViewsNames[input.views]);
    }
    if (one.offload_bytes > 0) {
      text += fmt::format("{} has {} {} in each rank's file, which an update reads and writes\n",
                          StrategyName(one.strategy), unit.Of(one.offload_bytes), unit.name);
    }
    const double all = input.param_count;
    if (one.strategy == WEFT_SHARD_FRACTION) {
      text +=
          fmt::format("fraction keeps {:.0f} % of the params gathered from forward to backward\n",
                      100 * std::min(1.0, one.kept_params / all));
    }
    if (one.strategy != WEFT_SHARD_HYBRID_SHARD && one.strategy != WEFT_SHARD_HPZ) continue;
    text += fmt::format("{} sends {:.2f} x params inside shard groups, {:.2f} x params beyond\n",
                        StrategyName(one.strategy), one.sent.inside / all,
                        (one.sent.all + one.sent.across) / all);
  }
  if (input.shard_group == 0) text += "hybrid and hpz: with --shard-group RANKS\n";
  if (input.budget_bytes == 0)
    text += "fraction, which strategies fit and which to take: with --budget BYTES\n";
  return text + "not counted: activations, the memory of process groups\n";
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

std::string PlanAsText(const PlanReport& report) {
  const Unit unit = UnitFor(report);
  return Head(report.input) + Table(report, unit) + Remarks(report, unit) + Choice(report, unit);
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
  json["accumulation"] = kAccumulationNames[input.accumulation];
  json["shard_group"] = input.shard_group > 0 ? Json(input.shard_group) : Json();
  json["budget_bytes"] = input.budget_bytes > 0 ? Json(input.budget_bytes) : Json();
  json["views"] = kViewsNames[input.views];
  json["offload"] = input.offload;
  json["offload_params"] = input.offload_params;
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
  json["offload_bytes"] = estimate.offload_bytes;
  json["kept_params"] = estimate.kept_params;
  json["forward_bytes"] = estimate.forward_bytes;
  json["backward_bytes"] = estimate.backward_bytes;
  json["peak_bytes"] = estimate.peak_bytes;
  json["views_bytes"] = estimate.views_bytes;
  json["sent_elements"] = {{"all", estimate.sent.all},
                           {"inside", estimate.sent.inside},
                           {"across", estimate.sent.across},
                           {"total", estimate.sent.Total()}};
  json["sent_bytes"] = estimate.sent_bytes;
  json["fits"] = budget ? Json(estimate.fits) : Json();
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
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandOutput PrintPlan(const PlanArguments& arguments, bool json) {
  const absl::StatusOr<PlanReport> report = Plan(arguments);
  if (!report.ok()) return {"", {std::string(report.status().message())}};
  return {json ? PlanAsJson(*report) : PlanAsText(*report), {}};
}

}  // namespace weft
