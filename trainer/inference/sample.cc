#include "trainer/inference/sample.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "trainer/agreement.h"
#include "trainer/config.h"
#include "trainer/data/data_files.h"
#include "trainer/data/token_set.h"
#include "trainer/evaluation.h"
#include "trainer/failure.h"
#include "trainer/inference/loaded_model.h"
#include "trainer/progress.h"
#include "trainer/stop_signals.h"
#include "trainer/text_generator.h"
#include "trainer/tokenizer/byte_tokenizer.h"
#include "trainer/tokenizer/read_tokenizer.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

constexpr auto kReplaceNoUtf8 = nlohmann::json::error_handler_t::replace;

std::unique_ptr<Tokenizer> TokenizerOfRun(const RunModel& run) {
  if (run.bytes) return std::make_unique<ByteTokenizer>();
  const DataFiles files = FindDataFiles(run.data);
  const std::optional<TokenSet> set =
      files.tokens() ? FindTokenSet(files.train.front()) : std::nullopt;
  if (!set) throw BadInput("nothing is said of the vocabulary beside the run's --data");
  return MakeTokenizer(*set);
}

std::unique_ptr<Tokenizer> TokenizerNamed(const std::string& name) {
  if (name == kByteTokenizerName) return std::make_unique<ByteTokenizer>();
  return ReadTokenizer(name);
}

std::filesystem::path FolderOf(const std::string& model) {
  const std::filesystem::path path = std::filesystem::absolute(model);
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
}

std::unique_ptr<Tokenizer> TokenizerFor(const SampleConfig& config, const LoadedModel& loaded) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!config.tokenizer.empty()) {
    tokenizer = TokenizerNamed(config.tokenizer);
  } else {
    try {
      if (loaded.kind() == SavedModel::Kind::kRun) {
        tokenizer = TokenizerOfRun(loaded.run());
      } else {
        tokenizer = ReadTokenizer(FolderOf(config.use.from));
      }
    } catch (const BadInput& error) {
      throw BadInput(
          fmt::format("{}; give --tokenizer, the vocabulary of the model's tokens", error.what()));
    }
  }
  const size_t vocabulary = tokenizer->vocabulary();
  if (vocabulary > loaded.model().vocabulary)
    throw BadInput(
        fmt::format("the tokenizer has a vocabulary of {}, and the model one of {}; give the "
                    "model's --tokenizer",
                    vocabulary, loaded.model().vocabulary));
  return tokenizer;
}

std::vector<Token> PromptOf(const SampleConfig& config, Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  if (config.prompt) {
    tokenizer.Encode(*config.prompt, &tokens, SpecialText::kAsTokens);
  } else if (const std::optional<Token> mark = tokenizer.end_of_text()) {
    tokens.push_back(*mark);
  } else {
    tokenizer.Encode("\n", &tokens, SpecialText::kAsText);
  }
  if (tokens.empty())
    throw BadInput("--prompt is empty; give a text, or leave it out to begin a document");
  return tokens;
}

// How many bytes at the end of a text may be the beginning of a character of UTF-8.
size_t BegunBytes(std::string_view text) {
  for (size_t bytes = 1; bytes <= 3 && bytes <= text.size(); bytes++) {
    const auto byte = uint8_t(text[text.size() - bytes]);
    if ((byte & 0xc0) == 0x80) continue;  // inside of one
    const size_t wanted = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return wanted > bytes ? bytes : 0;
  }
  return 0;
}

// Standard output of rank 0. On a terminal nothing is shown that would control it; elsewhere bytes
// are as they are.
class Output {
 public:
  void Add(const std::string& text, bool last = false) {
    pending_ += text;
    const size_t count = pending_.size() - (last || !terminal_ ? 0 : BegunBytes(pending_));
    const std::string part = pending_.substr(0, count);
    pending_.erase(0, count);
    const std::string shown = terminal_ ? Printable(part) : part;
    failed_ |= std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() ||
               std::fflush(stdout) != 0;
    if (failed_ && error_ == 0) error_ = errno;
  }

  // 0: all was written.
  int error() const { return error_; }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  std::string pending_;
  bool failed_ = false;
  int error_ = 0;
};

// What all ranks must have alike. The vocabulary is rank 0's matter.
ResolvedConfig OptionsOf(const SampleConfig& config) {
  const auto option = [](const char* key, std::string value) {
    return ResolvedOption{.key = key, .value = std::move(value), .scope = Scope::kStart};
  };
  const TokenChoice& choice = config.choice;
  ResolvedConfig options = OptionsOf(config.use);
  options.push_back(option(
      "prompt",
      config.prompt ? nlohmann::json(*config.prompt).dump(-1, ' ', true, kReplaceNoUtf8) : ""));
  options.push_back(option("tokens", std::to_string(config.tokens)));
  options.push_back(option("temperature", fmt::format("{}", choice.temperature)));
  options.push_back(option("top-k", std::to_string(choice.top == SIZE_MAX ? 0 : choice.top)));
  options.push_back(option("seed", std::to_string(choice.seed)));
  return options;
}

// What rank 0's vocabulary has, on all ranks; none is below 0.
int64_t EndOfText(const Tokenizer* tokenizer, DataParallel& parallel) {
  int64_t end = -1;
  if (tokenizer != nullptr && tokenizer->end_of_text()) end = int64_t(*tokenizer->end_of_text());
  parallel.HearFirst(&end, sizeof end);
  return end;
}

}  // namespace

int RunSample(const SampleConfig& config, weft_group_t group) {
  AgreeOnConfig(group, OptionsOf(config), "sample");
  LoadedModel loaded(config.use, group);
  std::unique_ptr<Tokenizer> tokenizer;  // of rank 0, which alone reads and writes text
  std::vector<Token> prompt;
  DecideOnFirst(group, [&] {
    tokenizer = TokenizerFor(config, loaded);
    prompt = PromptOf(config, *tokenizer);
  });
  loaded.Load({.bytes = DecoderNumbers(loaded.model()) * sizeof(float),
               .rows = std::min(kDecoderChunk, loaded.model().seq),
               .advice = "use a smaller model, a --strategy that shards more, or more machines"});
  const int64_t end = EndOfText(tokenizer.get(), loaded.parallel());

  const auto start = std::chrono::steady_clock::now();
  TextGenerator generator(loaded.model(), loaded.parallel(), prompt, size_t(config.use.threads),
                          tokenizer ? tokenizer->vocabulary() : SIZE_MAX);
  Output output;
  const auto show = [&](std::span<const Token> tokens, bool last = false) {
    if (!tokenizer) return;
    std::string text;
    tokenizer->Decode(tokens, &text);
    output.Add(last ? text + "\n" : text, last);
  };
  if (config.prompt) show(prompt);
  const size_t look_every = ForwardsBetweenLooks(loaded.model(), 1);
  size_t made = 0;
  for (; made < config.tokens; made++) {
    if (made % look_every == 0) {
      const int stop_code = StopCode(loaded.parallel().Any(PendingRequests()));
      if (stop_code != 0) return stop_code;
    }
    const Token token = generator.Next(config.choice);
    if (int64_t(token) == end) break;
    show({&token, 1});
  }
  show({}, /*last=*/true);
  if (tokenizer && output.error() == 0) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fputs(fmt::format("weft_train: {} tokens in {:.2f} s, {:.1f} tokens/s\n", made, seconds,
                           double(made) / seconds)
                   .c_str(),
               stderr);
  }
  if (output.error() != 0)
    Complain(fmt::format("writing the output: {}", std::strerror(output.error())));
  return AllSay(group, output.error() == 0) ? 0 : kExitNotWritten;
}

}  // namespace weft::trainer
