#include "trainer/run_data.h"

#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "trainer/data/data_files.h"
#include "trainer/failure.h"
#include "trainer/progress.h"

namespace weft::trainer {
namespace {

constexpr size_t kByteTokens = 256;

}  // namespace

std::string ProgramDirectory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

RunData::RunData(const std::vector<std::string>& data, const std::string& program_directory) {
  const DataFiles found = FindDataFiles(data);
  if (!found.tokens()) {
    corpus_ = std::make_unique<const Corpus>(LoadCorpus(found.text, program_directory));
    text_ = ByteTokens(*corpus_);
    return;
  }
  files_ = OpenTokenData(found);
  text_ = {files_->train, files_->validation};
  if (files_->set) tokenizer_ = MakeTokenizer(*files_->set);
}

size_t RunData::vocabulary() const {
  if (corpus_) return kByteTokens;
  return files_->set ? files_->set->vocabulary : 0;
}

void RunData::CheckVocabulary(size_t model_vocabulary) {
  if (files_) {
    trainer::CheckVocabulary(*files_, model_vocabulary);
    text_ = {files_->train, files_->validation};
  } else if (model_vocabulary < kByteTokens) {
    throw BadInput(
        fmt::format("the text has bytes as tokens, {} of them, and the model {}; give "
                    "--vocabulary {} or more",
                    kByteTokens, model_vocabulary, kByteTokens));
  }
}

std::string RunData::Describe() const {
  return corpus_ ? DescribeCorpus(*corpus_) : DescribeTokenData(*files_);
}

std::string RunData::Identity() const {
  if (corpus_) {
    return fmt::format("{} + {} bytes, {:016x}", corpus_->train.size(), corpus_->validation.size(),
                       CorpusDigest(*corpus_));
  }
  return fmt::format("{} + {} tokens, {:016x} + {:016x}", text_.train.size(),
                     text_.validation.size(), text_.train.DigestOfSample(),
                     text_.validation.DigestOfSample());
}

std::optional<size_t> RunData::BytesOf(std::span<const Token> tokens) const {
  if (corpus_) return tokens.size();
  if (!tokenizer_) return std::nullopt;
  std::vector<Token> text(tokens.begin(), tokens.end());
  if (const std::optional<Token> mark = tokenizer_->end_of_text()) std::erase(text, *mark);
  std::string bytes;
  tokenizer_->Decode(text, &bytes);
  return bytes.size();
}

std::string RunData::Decode(std::span<const Token> tokens) const {
  std::string text;
  if (corpus_) {
    for (const Token token : tokens)
      text.push_back(char(token));
  } else if (tokenizer_) {
    tokenizer_->Decode(tokens, &text);
  } else {
    text = fmt::format("{}", fmt::join(tokens, " "));
  }
  return text;
}

}  // namespace weft::trainer
