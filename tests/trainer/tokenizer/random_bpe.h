// Vocabularies for tests: any merges of earlier tokens, as they come, several of them into the same
// token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "trainer/tokenizer/bpe_model.h"
#include "trainer/tokenizer/byte_chars.h"

namespace weft::trainer {

inline BpeModel BytesAlone() {
  BpeModel model;
  for (const uint8_t byte : BytesInOrderOfChars())
    model.tokens.push_back({std::string(1, char(byte)), true});
  return model;
}

// The token of one byte.
inline Token OfByte(const BpeModel& model, char byte) {
  for (Token token = 0; token < model.tokens.size(); token++) {
    if (model.tokens[token].mergeable && model.tokens[token].bytes == std::string(1, byte))
      return token;
  }
  return 0;
}

// Of the letters of `alphabet`; in most, several merges make one token.
inline BpeModel RandomBpe(std::mt19937_64& random, size_t merges, const std::string& alphabet) {
  BpeModel model = BytesAlone();
  std::map<std::string, Token> by_bytes;
  std::vector<Token> made;
  for (const char letter : alphabet)
    made.push_back(OfByte(model, letter));
  for (const Token token : made)
    by_bytes[model.tokens[token].bytes] = token;
  std::set<std::pair<Token, Token>> pairs;
  for (size_t tries = 0; tries < 20 * merges && model.merges.size() < merges; tries++) {
    const Token left = made[random() % made.size()], right = made[random() % made.size()];
    const std::string bytes = model.tokens[left].bytes + model.tokens[right].bytes;
    if (bytes.size() > 8 || !pairs.emplace(left, right).second) continue;
    const auto [product, is_new] = by_bytes.emplace(bytes, Token(model.tokens.size()));
    if (is_new) {
      model.tokens.push_back({bytes, true});
      made.push_back(product->second);
    }
    model.merges.push_back({left, right, product->second});
  }
  return model;
}

}  // namespace weft::trainer
