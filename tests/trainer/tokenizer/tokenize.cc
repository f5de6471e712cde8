// A program for tests and measurements of trainer/tokenizer.
//
//   weft_test_tokenize encode VOCABULARY gpt2|llama3 text|special FILE    tokens as 32-bit words
//   weft_test_tokenize decode VOCABULARY FILE                             the bytes of such words
//   weft_test_tokenize train gpt2|llama3 TOKENS COUNT_MIN FOLDER FILE...  writes into FOLDER
//   weft_test_tokenize time VOCABULARY FILE      seconds for FILE, for each line on standard input
//   weft_test_tokenize pieces gpt2|llama3 FILE   the ends of pieces as 32-bit words
//
// Ends with 2 and one sentence if the vocabulary is refused.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/bpe_tokenizer.h"
#include "trainer/tokenizer/bpe_trainer.h"
#include "trainer/tokenizer/read_tokenizer.h"
#include "trainer/tokenizer/tokenizer_json.h"
#include "trainer/tokenizer/vocab_files.h"

namespace {

using namespace weft::trainer;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

SplitPattern SplitOf(const std::string& name) {
  if (name != "gpt2" && name != "llama3") throw BadInput("no split is called " + name);
  return name == "gpt2" ? SplitPattern::kGpt2 : SplitPattern::kLlama3;
}

template <typename Word>
void Print(const std::vector<Word>& words) {
  std::fwrite(words.data(), sizeof(Word), words.size(), stdout);
}

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Encode(const std::vector<std::string>& arguments) {
  const auto tokenizer = ReadTokenizer(arguments.at(0), SplitOf(arguments.at(1)));
  const bool special = arguments.at(2) == "special";
  std::vector<Token> tokens;
  tokenizer->Encode(ReadAll(arguments.at(3)), &tokens,
                    special ? SpecialText::kAsTokens : SpecialText::kAsText);
  Print(tokens);
}

void Decode(const std::vector<std::string>& arguments) {
  const auto tokenizer = ReadTokenizer(arguments.at(0));
  const std::string words = ReadAll(arguments.at(1));
  std::string text;
  tokenizer->Decode({reinterpret_cast<const Token*>(words.data()), words.size() / sizeof(Token)},
                    &text);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Train(const std::vector<std::string>& arguments) {
  const double begin = SecondsNow();
  BpeTrainer trainer(SplitOf(arguments.at(0)));
  for (size_t i = 4; i < arguments.size(); i++)
    trainer.Add(ReadAll(arguments[i]));
  const double counted = SecondsNow();
  BpeTraining wanted;
  wanted.vocabulary = std::stoul(arguments.at(1));
  wanted.count_min = std::stoul(arguments.at(2));
  wanted.special = {"<|endoftext|>"};
  const BpeModel model = trainer.Train(wanted);
  fmt::print("{{\"count_s\": {:.3f}, \"merge_s\": {:.3f}, \"tokens\": {}}}\n", counted - begin,
             SecondsNow() - counted, model.tokens.size());
  WriteVocabFiles(model, arguments.at(3));
  WriteTokenizerJson(model, arguments.at(3) + "/tokenizer.json");
}

void Time(const std::vector<std::string>& arguments) {
  const auto tokenizer = ReadTokenizer(arguments.at(0));
  const std::string text = ReadAll(arguments.at(1));
  std::vector<Token> tokens;
  while (std::getchar() == '\n') {
    tokens.clear();
    const double begin = SecondsNow();
    tokenizer->Encode(text, &tokens, SpecialText::kAsText);
    fmt::print("{:.6f} {}\n", SecondsNow() - begin, tokens.size());
    std::fflush(stdout);
  }
}

void Pieces(const std::vector<std::string>& arguments) {
  const SplitPattern split = SplitOf(arguments.at(0));
  const std::string text = ReadAll(arguments.at(1));
  std::vector<uint32_t> ends;
  for (size_t at = 0; at < text.size(); at = ends.back())
    ends.push_back(uint32_t(PieceEnd(split, text, at)));
  Print(ends);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "encode") Encode(arguments);
    if (verb == "decode") Decode(arguments);
    if (verb == "train") Train(arguments);
    if (verb == "time") Time(arguments);
    if (verb == "pieces") Pieces(arguments);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const BadInput& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
