#include "trainer/tokenizer/added_tokens.h"

#include <algorithm>

namespace weft::trainer {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  texts_.reserve(tokens.size());
  for (const AddedToken& token : tokens) {
    Round& round = rounds_[token.normalized];
    const std::string_view text = texts_.emplace_back(token.text);
    round.by_text.emplace(text, Found{token.id, token.special});
    std::vector<size_t>& lengths = round.lengths[static_cast<unsigned char>(text[0])];
    const auto place =
        std::lower_bound(lengths.begin(), lengths.end(), text.size(), std::greater<>());
    if (place == lengths.end() || *place != text.size()) lengths.insert(place, text.size());
    bytes_max_ = std::max(bytes_max_, text.size());
  }
}

const AddedTokens::Found* AddedTokens::Round::At(std::string_view text, size_t at,
                                                 std::string_view* found) const {
  for (const size_t length : lengths[static_cast<unsigned char>(text[at])]) {
    if (length > text.size() - at) continue;
    const auto token = by_text.find(text.substr(at, length));
    if (token == by_text.end()) continue;
    *found = token->first;
    return &token->second;
  }
  return nullptr;
}

void AddedTokens::Cut(std::string_view text, SpecialText special, PartOfText part) const {
  CutBy(0, text, special, part);
}

void AddedTokens::CutBy(size_t round, std::string_view text, SpecialText special,
                        PartOfText part) const {
  if (text.empty()) return;
  if (round == rounds_.size()) return part(text, std::nullopt);
  size_t begin = 0;  // of what no token has taken
  std::string_view token;
  if (!rounds_[round].by_text.empty()) {
    for (size_t at = 0; at < text.size();) {
      const Found* found = rounds_[round].At(text, at, &token);
      if (found == nullptr) {
        at++;
        continue;
      }
      if (!found->special || special == SpecialText::kAsTokens) {
        CutBy(round + 1, text.substr(begin, at - begin), special, part);
        part(text.substr(at, token.size()), found->id);
        begin = at + token.size();
      }
      at += token.size();
    }
  }
  CutBy(round + 1, text.substr(begin), special, part);
}

bool AddedTokens::AnyAcross(std::string_view text, size_t at) const {
  const size_t begin = at - std::min(at, bytes_max_);
  std::string_view token;
  for (const Round& round : rounds_) {
    if (round.by_text.empty()) continue;
    for (size_t i = begin; i < at; i++) {
      // The longest that begins there: if it ends at `at` or before, so do the others.
      if (round.At(text, i, &token) != nullptr && i + token.size() > at) return true;
    }
  }
  return false;
}

}  // namespace weft::trainer
