#include "trainer/data/token_data.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "trainer/data/token_file.h"
#include "trainer/failure.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutTenth = 10;

TokenText OpenRuns(const std::vector<fs::path>& paths) {
  std::vector<std::shared_ptr<const TokenRun>> runs;
  runs.reserve(paths.size());
  for (const fs::path& path : paths)
    runs.push_back(std::make_shared<const TokenFile>(path));
  return runs.empty() ? TokenText() : TokenText(std::move(runs));
}

fs::path TokenizerPath(const TokenSet& set) {
  return (set.path.parent_path() / set.tokenizer).lexically_normal();
}

bool SameTokenizer(const TokenSet& a, const TokenSet& b) {
  if (a.vocabulary != b.vocabulary || a.end_of_text != b.end_of_text) return false;
  const bool bytes = a.tokenizer == kByteTokenizerName;
  if (bytes || b.tokenizer == kByteTokenizerName) return a.tokenizer == b.tokenizer;
  if (TokenizerPath(a) == TokenizerPath(b)) return true;
  return ReadVocabularyFile(TokenizerPath(a)) == ReadVocabularyFile(TokenizerPath(b));
}

// Of all files; each set is read once.
std::optional<TokenSet> OneTokenSet(const DataFiles& files) {
  std::optional<TokenSet> one;
  std::vector<fs::path> seen;
  for (const std::vector<fs::path>* const side : {&files.train, &files.validation}) {
    for (const fs::path& file : *side) {
      const fs::path path = PathOfTokenSet(file);
      if (std::ranges::find(seen, path) != seen.end()) continue;
      seen.push_back(path);
      std::optional<TokenSet> found = FindTokenSet(file);
      if (!found) continue;
      if (one && !SameTokenizer(*one, *found)) {
        throw BadInput(
            fmt::format("--data names tokens of different vocabularies: those of {} and "
                        "those of {}; give one of them, or tokenize both with the same",
                        one->path.string(), found->path.string()));
      }
      if (!one) one = std::move(found);
    }
  }
  return one;
}

std::string FilesText(size_t count) {
  return fmt::format("{} file{}", count, count == 1 ? "" : "s");
}

}  // namespace

TokenData OpenTokenData(const DataFiles& files) {
  TokenData data;
  data.train = OpenRuns(files.train);
  data.validation = OpenRuns(files.validation);
  data.train_files = files.train.size();
  data.validation_files = files.validation.size();
  data.left = files.left;
  data.set = OneTokenSet(files);
  if (data.validation_files == 0) {
    const uint64_t all = data.train.size();
    const uint64_t held_out = std::min(all / kHeldOutTenth, kHeldOutTokensMax);
    data.validation = data.train.Part(all - held_out, held_out);
    data.train = data.train.Part(0, all - held_out);
  }
  return data;
}

void CheckVocabulary(TokenData& data, size_t model_vocabulary) {
  if (data.set && data.set->vocabulary > model_vocabulary) {
    throw BadInput(
        fmt::format("the tokens of --data are of a vocabulary of {} ({}), and the model "
                    "has {}; give the model as many",
                    data.set->vocabulary, data.set->path.string(), model_vocabulary));
  }
  const Token largest = std::max(data.train.LargestOfSample(), data.validation.LargestOfSample());
  if (largest >= model_vocabulary) {
    throw BadInput(
        fmt::format("the tokens of --data go up to {} at least, and the model has a "
                    "vocabulary of {}; give the model as many as their tokenizer has",
                    largest, model_vocabulary));
  }
  data.train.LimitTo(model_vocabulary);
  data.validation.LimitTo(model_vocabulary);
}

std::string DescribeTokenData(const TokenData& data) {
  std::string text = fmt::format("data   {} with {} tokens to train on, ",
                                 FilesText(data.train_files), data.train.size());
  if (data.validation_files == 0) {
    text += fmt::format("and their last {} to validate\n", data.validation.size());
  } else {
    text += fmt::format("{} with {} to validate\n", FilesText(data.validation_files),
                        data.validation.size());
  }
  if (data.set)
    text += fmt::format(
        "       a vocabulary of {} ({})\n", data.set->vocabulary,
        data.set->tokenizer == kByteTokenizerName ? "bytes" : TokenizerPath(*data.set).string());
  if (!data.left.empty())
    text += fmt::format(
        "       left out: {}{}, which {} no tokens\n", data.left.front().string(),
        data.left.size() == 1 ? "" : fmt::format(" and {} more .bin files", data.left.size() - 1),
        data.left.size() == 1 ? "has" : "have");
  return text;
}

}  // namespace weft::trainer
