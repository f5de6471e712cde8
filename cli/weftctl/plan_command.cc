#include "cli/weftctl/plan_command.h"

#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/plan_report.h"

namespace weft {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr Suffix kNoSuffix[] = {{"", 1}};
constexpr Suffix kCountSuffixes[] = {{"", 1},    {"K", 1e3}, {"M", 1e6},
                                     {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
// "40G" is left out on purpose: elsewhere in weft it is a power of 1024, the table's unit is one of
// 1000.
constexpr Suffix kByteSuffixes[] = {{"", 1},
                                    {"B", 1},
                                    {"KB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9},
                                    {"TB", 1e12},
                                    {"KiB", 1024.0},
                                    {"MiB", 1048576.0},
                                    {"GiB", 1073741824.0},
                                    {"TiB", 1099511627776.0}};

// Reads a decimal number and one of `suffixes` after it. CLI11's AsNumberWithUnit keeps six digits
// of such numbers.
bool ReadNumber(std::string_view text, std::span<const Suffix> suffixes, double* value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc()) return false;
  const std::string_view suffix = text.substr(static_cast<size_t>(rest - text.data()));
  for (const Suffix& one : suffixes) {
    if (suffix != one.text) continue;
    *value *= one.factor;
    return std::isfinite(*value);
  }
  return false;
}

absl::StatusOr<double> ReadCount(const char* option, const std::string& text) {
  double value = 0;
  if (ReadNumber(text, kCountSuffixes, &value)) return value;
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
    if (last != (i == 3) || !ReadNumber(rest.substr(0, comma), kNoSuffix, bytes[i])) {
      return MakeError(
          WEFT_INVALID_ARGUMENT,
          StrCat("--mix \"", name, "\" is neither fp32, fp16 nor bf16, nor four numbers of bytes ",
                 "like 2,4,4,8: params, main copy, gradients, optimizer"));
    }
    if (!last) rest.remove_prefix(comma + 1);
  }
  return mix;
}

absl::StatusOr<Accumulation> ReadAccumulation(const std::string& name) {
  for (const Accumulation one : {Accumulation::kLocalThenReduce, Accumulation::kReduceEvery,
                                 Accumulation::kInnerEveryOuterLast}) {
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
  if (text.empty() || (ReadNumber(text, kByteSuffixes, &bytes) && bytes > 0)) return bytes;
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

}  // namespace

PlanOutput FormatPlan(const PlanArguments& arguments, bool json) {
  const absl::StatusOr<PlanReport> report = Plan(arguments);
  if (!report.ok()) return {"", std::string(report.status().message())};
  return {json ? PlanAsJson(*report) : PlanAsText(*report), ""};
}

}  // namespace weft
