#include "trainer/tokenizer/vocabulary_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/byte_chars.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer {

void VocabularyText::Refuse(const std::string& sentence) const {
  throw BadInput(fmt::format("{}: {}", path_.string(), sentence));
}

void VocabularyText::AddTokens(const nlohmann::json& vocabulary) {
  if (!vocabulary.is_object()) Refuse("the vocabulary is no object of tokens and their numbers");
  for (const auto& [text, number] : vocabulary.items()) {
    const Token token = TokenOf(number, path_, fmt::format("token \"{}\"", text));
    BpeToken& place = Place(token);
    if (!place.bytes.empty())
      Refuse(fmt::format("\"{}\" and another token have number {}", text, token));
    if (text.empty()) Refuse(fmt::format("token {} has no text", token));
    std::optional<std::string> bytes = BytesOf(text);
    place = bytes ? BpeToken{std::move(*bytes), true} : BpeToken{text, false};
    by_text_.emplace(text, token);
  }
}

void VocabularyText::AddMerge(std::string_view left, std::string_view right) {
  Merge merge{};
  const std::string whole = std::string(left).append(right);
  for (const auto& [text, token] : {std::pair{left, &merge.left},
                                    {right, &merge.right},
                                    {std::string_view(whole), &merge.product}}) {
    const auto found = by_text_.find(text);
    if (found == by_text_.end())
      Refuse(fmt::format(
          "merge {}, of \"{}\" and \"{}\", needs token \"{}\", which the vocabulary has not got",
          model_.merges.size() + 1, left, right, text));
    *token = found->second;
  }
  model_.merges.push_back(merge);
}

void VocabularyText::AddMergeLine(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    Refuse(fmt::format("merge {}, \"{}\", is not two tokens with a space between them",
                       model_.merges.size() + 1, line.substr(0, 60)));
  AddMerge(line.substr(0, space), line.substr(space + 1));
}

void VocabularyText::AddAdded(const AddedToken& added) {
  if (added.text.empty()) Refuse(fmt::format("added token {} has no text", added.id));
  const auto known = by_text_.find(added.text);
  if (known != by_text_.end() && known->second != added.id)
    Refuse(fmt::format("added token \"{}\" has number {} and in the vocabulary {}", added.text,
                       added.id, known->second));
  BpeToken& place = Place(added.id);
  if (known == by_text_.end()) {
    if (!place.bytes.empty())
      Refuse(fmt::format("added token \"{}\" has number {}, which another token has", added.text,
                         added.id));
    place.mergeable = false;
    by_text_.emplace(added.text, added.id);
  }
  // Spelled in byte characters it might be other bytes: the text of an added token is meant as it
  // stands.
  if (place.bytes != added.text) place = {added.text, false};
  model_.added.push_back(added);
}

void VocabularyText::MakeUnreachableTokensSpecial() {
  std::vector<bool> reachable(model_.tokens.size());
  for (const Merge& merge : model_.merges)
    reachable[merge.product] = true;
  for (Token token = 0; token < model_.tokens.size(); token++) {
    BpeToken& found = model_.tokens[token];
    if (reachable[token] || found.bytes.empty() || (found.mergeable && found.bytes.size() == 1))
      continue;
    found.mergeable = false;
    model_.added.push_back({token, found.bytes, true, false});
  }
}

BpeModel VocabularyText::Finish() {
  for (Token token = 0; token < model_.tokens.size(); token++) {
    if (model_.tokens[token].bytes.empty())
      Refuse(fmt::format("{} tokens have numbers up to {}, but none has {}", by_text_.size(),
                         model_.tokens.size() - 1, token));
  }
  model_.end_of_text = FindEndOfText(model_.added);
  CheckBpeModel(model_, path_.string());
  return std::move(model_);
}

BpeToken& VocabularyText::Place(Token token) {
  if (token >= kJsonValuesMax)
    Refuse(
        fmt::format("a token has number {}; vocabularies have at most {}", token, kJsonValuesMax));
  if (token >= model_.tokens.size())
    model_.tokens.resize(std::max<size_t>(token + 1, model_.tokens.size()));
  return model_.tokens[token];
}

}  // namespace weft::trainer
