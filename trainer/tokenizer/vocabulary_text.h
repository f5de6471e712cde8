// What files of BPE vocabularies have in common: tokens and merges as text, spelled in byte
// characters (byte_chars.h).
//
//   VocabularyText vocabulary(path);
//   vocabulary.AddTokens(json["vocab"]);
//   vocabulary.AddMerge("Ġ", "t");
//   BpeModel model = vocabulary.Finish();
//
// Throws BadInput with one sentence that begins with the file. Thread-safety: one thread.
#ifndef WEFT_TRAINER_TOKENIZER_VOCABULARY_TEXT_H_
#define WEFT_TRAINER_TOKENIZER_VOCABULARY_TEXT_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/text_map.h"

namespace weft::trainer {

class VocabularyText {
 public:
  explicit VocabularyText(const std::filesystem::path& path) : path_(path) {}

  // The file that what follows is from.
  void SetFile(const std::filesystem::path& path) { path_ = path; }

  // {"!": 0, ...}
  void AddTokens(const nlohmann::json& vocabulary);

  // The next rank, of two tokens that are there.
  void AddMerge(std::string_view left, std::string_view right);

  // "left right", as a line of merges.txt has it.
  void AddMergeLine(std::string_view line);

  // Its number is a new one, or that of a token with this text.
  void AddAdded(const AddedToken& added);

  // Tokens that are no byte and that no merge makes become special: files without a list of added
  // tokens have their marks so.
  void MakeUnreachableTokensSpecial();

  // Numbers without holes.
  BpeModel Finish();

 private:
  [[noreturn]] void Refuse(const std::string& sentence) const;

  // Makes room for a token's number.
  BpeToken& Place(Token token);

  std::filesystem::path path_;
  BpeModel model_;
  TextMap<std::string, Token> by_text_;  // as it is spelled
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_VOCABULARY_TEXT_H_
