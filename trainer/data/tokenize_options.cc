#include "trainer/data/tokenize_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/core.h>

#include "trainer/data/token_format.h"
#include "trainer/failure.h"
#include "trainer/whole_number.h"

namespace weft::trainer {
namespace {

SplitPattern ParseSplit(const std::string& text) {
  if (text == "gpt2") return SplitPattern::kGpt2;
  if (text == "llama3") return SplitPattern::kLlama3;
  throw BadInput("--split " + text + " is unknown; use gpt2 or llama3");
}

}  // namespace

std::string ParseTokenizeOptions(int argc, char** argv, TokenizeConfig& config) {
  CLI::App app{"Makes files of tokens of text, for --data.", "weft_train tokenize"};
  app.add_option("FILES", config.files, "files of text, and folders of such files")->required();
  app.add_option(
         "--tokenizer", config.tokenizer,
         "byte: each byte is a token; bpe:N: N tokens, made of this text; or the files of a "
         "vocabulary: tokenizer.json, vocab.json with merges.txt, tokenizer.bin, or their "
         "folder")
      ->required();
  app.add_option("--out", config.out, "FOLDER/NAME, for FOLDER/NAME_train_000000.bin and so on")
      ->required();
  app.add_option("--shard-tokens", config.shard_tokens, "tokens of each file but the last one")
      ->capture_default_str()
      ->check(WholeNumber(1, kFileTokensMax));
  app.add_option("--val-part", config.validation_part,
                 "part of the text that goes into files of its own, to validate with; 0: none")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--split", [&config](const std::string& text) { config.split = ParseSplit(text); },
         "how text is cut into words, where a vocabulary is made or does not say it: gpt2, llama3")
      ->default_str("gpt2");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train tokenize --help");
  }
  if (!(config.validation_part >= 0 && config.validation_part < 1))
    throw BadInput(fmt::format("--val-part {} is no part of the text; use 0 to less than 1",
                               config.validation_part));
  return "";
}

}  // namespace weft::trainer
