#include "trainer/tokenizer/tokenizer_bin.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/merge_table.h"
#include "trainer/tokenizer/piece_merger.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer {
namespace {

constexpr size_t kHeaderWords = 256;
constexpr uint32_t kGpt2Tokens = 50257;
constexpr Token kGpt2EndOfText = 50256;

[[noreturn]] void RefuseBin(const std::filesystem::path& file, const std::string& sentence) {
  throw BadInput(fmt::format("{}: {}", file.string(), sentence));
}

uint32_t WordAt(std::string_view bytes, size_t index) {
  uint32_t word = 0;
  for (size_t i = 4; i-- > 0;)
    word = word << 8 | static_cast<unsigned char>(bytes[4 * index + i]);
  return word;
}

struct Header {
  uint32_t tokens = 0;
  Token end_of_text = 0;
};

Header HeaderOf(std::string_view bytes, const std::filesystem::path& file) {
  if (bytes.size() < 4 * kHeaderWords)
    RefuseBin(file, fmt::format("{} bytes are less than the header has", bytes.size()));
  if (WordAt(bytes, 0) != kTokenizerBinMagic)
    RefuseBin(file, fmt::format("it begins with {} and not with {}, so it is no tokenizer.bin",
                                WordAt(bytes, 0), kTokenizerBinMagic));
  const uint32_t version = WordAt(bytes, 1), tokens = WordAt(bytes, 2);
  if (version != 1 && version != 2)
    RefuseBin(file, fmt::format("version {} is neither 1 nor 2", version));
  // A token takes two bytes at least.
  if (tokens > (bytes.size() - 4 * kHeaderWords) / 2)
    RefuseBin(file, fmt::format("it says {} tokens, and {} bytes have no room for them", tokens,
                                bytes.size()));
  if (version == 1 && tokens != kGpt2Tokens)
    RefuseBin(
        file,
        fmt::format("version 1 with {} tokens does not say which one ends a text; write version 2",
                    tokens));
  const Token end_of_text = version == 1 ? kGpt2EndOfText : WordAt(bytes, 3);
  if (end_of_text >= tokens)
    RefuseBin(file, fmt::format("token {} of {} ends a text", end_of_text, tokens));
  return {tokens, end_of_text};
}

std::vector<BpeToken> TokensOf(std::string_view rest, const Header& header,
                               const std::filesystem::path& file) {
  std::vector<BpeToken> tokens;
  for (Token token = 0; token < header.tokens; token++) {
    const size_t length = rest.empty() ? 0 : static_cast<unsigned char>(rest[0]);
    if (length == 0 || length >= rest.size()) {
      RefuseBin(file, length == 0 && !rest.empty()
                          ? fmt::format("token {} has no text", token)
                          : fmt::format("it ends in token {} of {}", token, header.tokens));
    }
    tokens.push_back({std::string(rest.substr(1, length)), token != header.end_of_text});
    rest.remove_prefix(1 + length);
  }
  if (!rest.empty()) RefuseBin(file, fmt::format("{} bytes follow the last token", rest.size()));
  return tokens;
}

// The merges, from the tokens in their order.
void FindMerges(BpeModel* model, const std::filesystem::path& file) {
  std::array<Token, 256> of_byte{};
  for (Token token = 0; token < model->tokens.size(); token++) {
    const BpeToken& found = model->tokens[token];
    if (found.mergeable && found.bytes.size() == 1)
      of_byte[static_cast<unsigned char>(found.bytes[0])] = token;
  }
  MergeTable merges;
  PieceMerger merger;
  std::vector<Token> parts;
  for (Token token = 0; token < model->tokens.size(); token++) {
    const BpeToken& found = model->tokens[token];
    if (!found.mergeable || found.bytes.size() == 1) continue;
    parts.clear();
    for (const char byte : found.bytes)
      parts.push_back(of_byte[static_cast<unsigned char>(byte)]);
    merger.Merge(merges, 0, &parts);
    if (parts.size() != 2) {
      RefuseBin(file, fmt::format("token {} is not made of two tokens before it but of {}, so the "
                                  "merges cannot be found again; read the "
                                  "vocabulary's tokenizer.json",
                                  Named(*model, token), parts.size()));
    }
    merges.Add(parts[0], parts[1], token);
    model->merges.push_back({parts[0], parts[1], token});
  }
}

}  // namespace

BpeModel ReadTokenizerBin(const std::filesystem::path& file, SplitPattern split) {
  const std::string bytes = ReadVocabularyFile(file);
  const Header header = HeaderOf(bytes, file);
  BpeModel model;
  model.split = split;
  model.tokens = TokensOf(std::string_view(bytes).substr(4 * kHeaderWords), header, file);
  model.added.push_back({header.end_of_text, model.tokens[header.end_of_text].bytes, true, false});
  model.end_of_text = header.end_of_text;
  // First without merges: each byte must have a token of its own before parts are looked for.
  CheckBpeModel(model, file.string());
  FindMerges(&model, file);
  return model;
}

}  // namespace weft::trainer
