// NAME.json beside files of tokens: which vocabulary they are of, and which files there are.
// weft_train tokenize writes it last, so a set that has one is whole. docs/formats/tokens.md has the
// page.
//
//   const std::optional<TokenSet> set = FindTokenSet("data/wiki_train_000003.bin");  // data/wiki.json
//   if (set) std::unique_ptr<Tokenizer> tokenizer = MakeTokenizer(*set);
//
// Throws BadInput with one sentence that begins with the file. Thread-safety: pure but for the files.
#ifndef WEFT_TRAINER_DATA_TOKEN_SET_H_
#define WEFT_TRAINER_DATA_TOKEN_SET_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/tokenizer/token.h"
#include "trainer/tokenizer/tokenizer.h"

namespace weft::trainer {

// What `tokenizer` is for bytes as tokens, where there is no file.
constexpr const char* kByteTokenizerName = "byte";

struct TokenSide {
  uint64_t tokens = 0;
  std::vector<std::string> files;  // names, beside the set's own file
};

struct TokenSet {
  std::filesystem::path path;  // of its file
  std::string tokenizer;       // kByteTokenizerName, or a vocabulary's file, relative to `path`
  size_t vocabulary = 0;
  std::optional<Token> end_of_text;
  uint64_t documents = 0;
  uint64_t bytes = 0;  // of text
  TokenSide train, validation;
};

// Whole, or what was there stays. Throws NotWritten too.
void WriteTokenSet(const TokenSet& set);

// Where the set of a file of tokens has its own file, whether it is there or not.
std::filesystem::path PathOfTokenSet(const std::filesystem::path& tokens);

// Of a file of tokens; none if it has none, as llm.c's own files, or if what has that name is of
// something else.
std::optional<TokenSet> FindTokenSet(const std::filesystem::path& tokens);

std::unique_ptr<Tokenizer> MakeTokenizer(const TokenSet& set);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_SET_H_
