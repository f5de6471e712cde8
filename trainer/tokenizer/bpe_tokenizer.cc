#include "trainer/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/added_tokens.h"
#include "trainer/tokenizer/merge_table.h"
#include "trainer/tokenizer/split.h"
#include "trainer/tokenizer/text_map.h"

namespace weft::trainer {

struct BpeTokenizer::Vocabulary {
  explicit Vocabulary(BpeModel checked) : model(std::move(checked)), added(model.added) {
    merges.Reserve(model.merges.size());
    for (const Merge& merge : model.merges)
      merges.Add(merge.left, merge.right, merge.product);
    for (Token token = 0; token < model.tokens.size(); token++) {
      const auto& [bytes, mergeable] = model.tokens[token];
      if (!mergeable) continue;
      if (bytes.size() == 1) of_byte[static_cast<unsigned char>(bytes[0])] = token;
      if (model.whole_pieces_first) of_piece.emplace(bytes, token);
    }
  }

  const BpeModel model;
  AddedTokens added;
  MergeTable merges;
  std::array<Token, 256> of_byte{};
  TextMap<std::string_view, Token> of_piece;  // for whole_pieces_first
};

BpeTokenizer::BpeTokenizer(BpeModel model, const std::string& source) {
  CheckBpeModel(model, source);
  vocabulary_ = std::make_shared<const Vocabulary>(std::move(model));
}

BpeTokenizer::BpeTokenizer(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

const BpeModel& BpeTokenizer::model() const {
  return vocabulary_->model;
}

size_t BpeTokenizer::vocabulary() const {
  return model().tokens.size();
}

std::optional<Token> BpeTokenizer::end_of_text() const {
  return model().end_of_text;
}

void BpeTokenizer::Encode(std::string_view text, std::vector<Token>* tokens, SpecialText special) {
  vocabulary_->added.Cut(text, special, [&](std::string_view part, std::optional<Token> token) {
    if (token) return tokens->push_back(*token);
    for (size_t at = 0, end = 0; at < part.size(); at = end) {
      end = PieceEnd(model().split, part, at);
      EncodePiece(part.substr(at, end - at), tokens);
    }
  });
}

void BpeTokenizer::EncodePiece(std::string_view piece, std::vector<Token>* tokens) {
  const bool is_short = piece.size() <= PieceCache::kPieceBytesMax;
  PieceCache::Key key{};
  if (is_short) {
    key = PieceCache::KeyOf(piece);
    if (const std::span<const Token> known = cache_.Find(key); !known.empty()) {
      tokens->insert(tokens->end(), known.begin(), known.end());
      return;
    }
  }
  const size_t begin = tokens->size();
  const auto whole = vocabulary_->of_piece.find(piece);
  if (whole != vocabulary_->of_piece.end()) {
    tokens->push_back(whole->second);
  } else {
    for (const char byte : piece)
      tokens->push_back(vocabulary_->of_byte[static_cast<unsigned char>(byte)]);
    merger_.Merge(vocabulary_->merges, begin, tokens);
  }
  if (is_short) cache_.Keep(key, std::span(*tokens).subspan(begin));
}

size_t BpeTokenizer::NextCut(std::string_view text, size_t from) const {
  size_t cut = NextPieceBorder(text, from);
  while (cut < text.size() && vocabulary_->added.AnyAcross(text, cut))
    cut = NextPieceBorder(text, cut);
  return cut;
}

size_t BpeTokenizer::cut_lookahead() const {
  return std::max(kBorderLookahead, vocabulary_->added.bytes_max());
}

void BpeTokenizer::Decode(std::span<const Token> tokens, std::string* text) const {
  for (const Token token : tokens) {
    if (token >= vocabulary())
      throw BadInput(
          fmt::format("token {} is outside of the vocabulary of {}", token, vocabulary()));
    text->append(model().tokens[token].bytes);
  }
}

std::unique_ptr<Tokenizer> BpeTokenizer::Clone() const {
  return std::unique_ptr<Tokenizer>(new BpeTokenizer(vocabulary_));
}

}  // namespace weft::trainer
