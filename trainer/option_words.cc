#include "trainer/option_words.h"

#include <charconv>
#include <iterator>

#include <fmt/core.h>

#include "base/quantity.h"
#include "trainer/failure.h"
#include "trainer/step_trace.h"

namespace weft::trainer {

void SetPrecision(ProgramConfig& config, const std::string& text) {
  config.best_precision = text == "auto";
  config.train.precision = FastestPrecision();
  if (text == "auto") return;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    config.train.precision = precision;
    if (text == NameOf(precision)) return;
  }
  throw BadInput("--dtype " + text + " is unknown; use auto, fp32, bf16 or fp16");
}

const char* ParamTypeName(NumberType type) {
  if (type == NumberType::kBf16) return "bf16";
  return type == NumberType::kFp16 ? "fp16" : "fp32";
}

NumberType ParseParamType(const std::string& text) {
  for (const NumberType type : {NumberType::kFloat32, NumberType::kBf16, NumberType::kFp16}) {
    if (text == ParamTypeName(type)) return type;
  }
  throw BadInput("--param-dtype " + text + " is unknown; use fp32, bf16 or fp16");
}

bool IsFirst(const char* option, const std::string& text, const char* first, const char* second) {
  if (text == first || text == second) return text == first;
  throw BadInput(fmt::format("--{} {} is unknown; use {} or {}", option, text, first, second));
}

Recompute ParseRecompute(const std::string& text) {
  for (size_t i = 0; i < std::size(kRecomputeNames); i++) {
    if (text == kRecomputeNames[i]) return Recompute(i);
  }
  throw BadInput("--recompute " + text + " is unknown; use none, selective or full");
}

void SetOrder3(ProgramConfig& config, const std::string& text) {
  for (size_t i = 0; i < std::size(kOrder3Names); i++) {
    if (text != kOrder3Names[i]) continue;
    config.order3 = Order3Choice(i);
    return;
  }
  throw BadInput("--order3 " + text + " is unknown; use auto, on or off");
}

void SetTrace(TrainConfig& train, const std::string& text) {
  train.trace_first = train.trace_last = 0;
  if (text == "none") return;
  const char* const end = text.data() + text.size();
  size_t first = 0;
  const auto [after, error] = std::from_chars(text.data(), end, first);
  size_t last = first;
  bool good = error == std::errc();
  if (good && after != end) {
    const auto [rest, second_error] = std::from_chars(after + 1, end, last);
    good = *after == '-' && second_error == std::errc() && rest == end;
  }
  if (!good || first < 1 || last < first || last - first >= StepTrace::kStepsMax) {
    throw BadInput(
        fmt::format("--trace {} is no range of steps; use FIRST-LAST from 1 on, {} steps "
                    "at most, or none",
                    text, StepTrace::kStepsMax));
  }
  train.trace_first = first;
  train.trace_last = last;
}

std::string TraceText(const TrainConfig& train) {
  if (train.trace_last == 0) return "none";
  return fmt::format("{}-{}", train.trace_first, train.trace_last);
}

size_t ParseBytes(const char* option, const std::string& text) {
  double bytes = 0;
  if (!ParseQuantity(text, kByteSuffixes, &bytes) || !(bytes >= 0 && bytes < 1e15)) {
    throw BadInput(option + (" " + text) +
                   " is no number of bytes like 40000, 40MB (10^6) or 1.5MiB (2^20)");
  }
  return size_t(bytes);
}

}  // namespace weft::trainer
