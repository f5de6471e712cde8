#include "trainer/inference/eval.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/agreement.h"
#include "trainer/config.h"
#include "trainer/evaluation.h"
#include "trainer/failure.h"
#include "trainer/inference/loaded_model.h"
#include "trainer/model.h"
#include "trainer/plan.h"
#include "trainer/run_data.h"
#include "trainer/stop_signals.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kByteTokens = 256;

struct EvalResult {
  double loss = 0;  // nats per token
  size_t windows = 0;
  size_t tokens = 0;            // that were judged
  std::optional<size_t> bytes;  // of text that these are
  double seconds = 0;

  std::optional<double> BitsPerByte() const {
    if (!bytes || *bytes == 0) return std::nullopt;
    return loss / std::log(2.0) * double(tokens) / double(*bytes);
  }
};

// What all ranks must have alike. Of the text it is the contents, which are compared when it is
// open.
ResolvedConfig OptionsOf(const EvalConfig& config) {
  const auto option = [](const char* key, std::string value) {
    return ResolvedOption{.key = key, .value = std::move(value), .scope = Scope::kStart};
  };
  ResolvedConfig options = OptionsOf(config.use);
  options.push_back(option("windows", std::to_string(config.windows)));
  options.push_back(option("batch", std::to_string(config.batch)));
  options.push_back(option("dtype", config.best_precision ? "auto" : NameOf(config.precision)));
  return options;
}

Precision AgreedPrecision(const EvalConfig& config, weft_group_t group) {
  ProgramConfig program;
  program.best_precision = config.best_precision;
  program.train.precision = config.best_precision ? FastestPrecision() : config.precision;
  if (!PrecisionSupported(program.train.precision))
    throw BadInput("--dtype bf16: oneDNN has no bfloat16 product for this CPU; use --dtype fp32");
  return AgreeOnPrecision(group, program);
}

const std::vector<std::string>& DataOf(const EvalConfig& config, const LoadedModel& loaded) {
  if (!config.data.empty()) return config.data;
  if (loaded.kind() == SavedModel::Kind::kRun) return loaded.run().data;
  throw BadInput("--data is missing: the model is no run's, so nothing says which text it is for");
}

RunData OpenData(const EvalConfig& config, const LoadedModel& loaded) {
  try {
    return RunData(DataOf(config, loaded), ProgramDirectory());
  } catch (const BadInput& error) {
    if (!config.data.empty() || loaded.kind() != SavedModel::Kind::kRun) throw;
    throw BadInput(
        fmt::format("the --data of the model's own run, as seen from here: {}; give "
                    "--data, or start where the run was started",
                    error.what()));
  }
}

// That the text's tokens are those that the model has learned.
void CheckTokens(const RunData& data, const LoadedModel& loaded) {
  const bool of_bytes = loaded.kind() == SavedModel::Kind::kRun
                            ? loaded.run().bytes
                            : loaded.model().vocabulary == kByteTokens;
  if (data.corpus() != nullptr && !of_bytes)
    throw BadInput(
        "--data is text, whose bytes would be the tokens, and the model reads tokens of a "
        "vocabulary; "
        "make files of tokens of the text: weft_train tokenize");
  if (data.corpus() == nullptr && of_bytes && data.vocabulary() > kByteTokens)
    throw BadInput(
        fmt::format("--data has tokens of a vocabulary of {}, and the model reads bytes; give text",
                    data.vocabulary()));
}

void CheckSameData(const RunData& data, weft_group_t group) {
  const std::string own = data.Identity();
  const std::string first = HearOfFirst(group, [&] { return std::string(own); });
  if (AllSay(group, own == first)) return;
  ThrowOnAllRanks(group, "the ranks read different text; give all ranks the same --data");
}

std::optional<size_t> JudgedBytes(const RunData& data, const std::vector<size_t>& windows,
                                  size_t seq) {
  const size_t skip = ContextTokens(seq);
  std::vector<Token> judged(seq - skip);
  size_t bytes = 0;
  for (const size_t offset : windows) {
    data.text().validation.Read(offset + skip + 1, judged);
    const std::optional<size_t> of_window = data.BytesOf(judged);
    if (!of_window) return std::nullopt;
    bytes += *of_window;
  }
  return bytes;
}

std::string Text(const EvalResult& r, const RunData& data, const LoadedModel& loaded,
                 const char* precision) {
  const size_t seq = loaded.model().seq;
  const std::optional<double> bits = r.BitsPerByte();
  return data.Describe() + loaded.Describe() +
         fmt::format(
             "loss   {:.4f} nats per {}, perplexity {:.3f}{}\n"
             "       of {} of {} tokens, of each the last {}: {} tokens{}; {} products, {:.1f} s\n",
             r.loss, data.unit(), std::exp(r.loss),
             bits ? fmt::format(", {:.4f} bits per byte", *bits) : "",
             Counted(r.windows, "window", "windows"), seq, seq - ContextTokens(seq), r.tokens,
             r.bytes ? fmt::format(", {} bytes", *r.bytes) : "", precision, r.seconds);
}

std::string Json(const EvalResult& r, const LoadedModel& loaded, const char* precision) {
  nlohmann::ordered_json json = {{"from", loaded.path()},
                                 {"loss", r.loss},
                                 {"perplexity", std::exp(r.loss)},
                                 {"windows", r.windows},
                                 {"tokens", r.tokens}};
  if (r.bytes) json["bytes"] = *r.bytes;
  if (const std::optional<double> bits = r.BitsPerByte()) json["bits_per_byte"] = *bits;
  json["dtype"] = precision;
  json["seconds"] = r.seconds;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

int RunEval(const EvalConfig& config, weft_group_t group) {
  AgreeOnConfig(group, OptionsOf(config), "judge");
  LoadedModel loaded(config.use, group);
  const ModelConfig& model = loaded.model();
  RunData data = OpenData(config, loaded);
  CheckTokens(data, loaded);
  data.CheckVocabulary(model.vocabulary);
  CheckSameData(data, group);
  const TokenText& text = data.text().validation;
  const std::vector<size_t> windows =
      SpreadWindows(text.size(), model.seq, config.windows == 0 ? SIZE_MAX : config.windows);
  if (windows.empty())
    throw BadInput(
        fmt::format("the validation text has {} tokens, and the model's context of {} "
                    "needs at least {}; give more data",
                    text.size(), model.seq, model.seq + 1));
  const Precision precision = AgreedPrecision(config, group);
  // No more than a rank has.
  const size_t batch =
      std::min(config.batch, (windows.size() + loaded.ranks() - 1) / loaded.ranks());
  loaded.Load({.bytes = WorkingBytes(model, batch, Recompute::kFull, InputTypeOf(precision)),
               .rows = batch * model.seq,
               .precision = precision,
               .advice = "use a smaller model or --batch, a --strategy that shards more, or more "
                         "machines"});

  const auto start = Clock::now();
  const std::unique_ptr<Matmul<float>> matmul = MakeMatmul<float>(precision);
  Model<float> made(model, batch, *matmul, loaded.parallel());
  Activations<float> kept(model, batch, Recompute::kFull, made.input_type());
  Evaluation evaluation(model, batch, loaded.parallel(), made);
  uint64_t requests = 0;
  const std::optional<double> loss = evaluation.MeanLoss(text, windows, kept, [&] {
    requests = loaded.parallel().Any(PendingRequests());
    return StopCode(requests) != 0;
  });
  if (!loss) return StopCode(requests);
  if (!std::isfinite(*loss)) throw RunFailure("the model's loss is no number");

  bool written = true;
  if (loaded.parallel().rank() == 0) {
    EvalResult result = {*loss, windows.size(),
                         windows.size() * (model.seq - ContextTokens(model.seq))};
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.bytes = JudgedBytes(data, windows, model.seq);
    const std::string out = config.json ? Json(result, loaded, NameOf(precision))
                                        : Text(result, data, loaded, NameOf(precision));
    written = std::fputs(out.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!written) Complain(fmt::format("writing the output: {}", std::strerror(errno)));
  }
  return AllSay(group, written) ? 0 : kExitNotWritten;
}

}  // namespace weft::trainer
