#include "trainer/tokenizer/pair_counts.h"

#include <limits>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr uint32_t kNoSymbol = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kMerged = kNoSymbol - 1;

}  // namespace

PairCounts::PairCounts(const PieceCounts& pieces, const std::array<Token, 256>& token_of_byte) {
  size_t bytes = 0;
  for (const auto& [piece, count] : pieces)
    bytes += piece.size();
  if (bytes >= kMerged)
    throw BadInput(fmt::format(
        "a vocabulary is trained on less than {} bytes of different words; these are {}", kMerged,
        bytes));
  symbols_.reserve(bytes);
  piece_counts_.reserve(pieces.size());
  for (const auto& [piece, count] : pieces)
    AddPiece(piece, count, token_of_byte);
  for (const auto& [pair, places] : pairs_)
    most_frequent_.push({places.count, pair});
  new_pairs_.clear();
}

void PairCounts::AddPiece(const std::string& piece, uint64_t count,
                          const std::array<Token, 256>& token_of_byte) {
  const auto begin = uint32_t(symbols_.size());
  const auto end = uint32_t(begin + piece.size());
  for (uint32_t at = begin; at < end; at++) {
    symbols_.push_back({token_of_byte[static_cast<unsigned char>(piece[at - begin])],
                        at == begin ? kNoSymbol : at - 1, at + 1 == end ? kNoSymbol : at + 1,
                        uint32_t(piece_counts_.size())});
  }
  piece_counts_.push_back(int64_t(count));
  for (uint32_t at = begin; at + 1 < end; at++)
    Insert(at, int64_t(count));
}

std::optional<PairCounts::Pair> PairCounts::TakeMostFrequent(uint64_t count_min) {
  while (!most_frequent_.empty()) {
    const Frequency top = most_frequent_.top();
    most_frequent_.pop();
    const auto found = pairs_.find(top.pair);
    const int64_t count = found->second.count;
    if (count < int64_t(count_min)) {
      pairs_.erase(found);  // no pair becomes more frequent after the merge that made it
      continue;
    }
    if (count < top.count) {
      most_frequent_.push({count, top.pair});
      continue;
    }
    taken_ = {Token(top.pair >> 32), Token(top.pair)};
    taken_places_ = std::move(found->second.begin);
    pairs_.erase(found);
    return taken_;
  }
  return std::nullopt;
}

void PairCounts::MergeTaken(Token product) {
  new_pairs_.clear();
  for (const uint32_t at : taken_places_) {
    Symbol& left = symbols_[at];
    if (left.token != taken_.left || left.next >= kMerged) continue;
    Symbol& right = symbols_[left.next];
    if (right.token != taken_.right) continue;
    const int64_t count = piece_counts_[left.piece];
    if (left.previous != kNoSymbol) Remove(symbols_[left.previous].token, left.token, count);
    if (right.next != kNoSymbol) Remove(right.token, symbols_[right.next].token, count);
    left.token = product;
    left.next = right.next;
    right.next = kMerged;
    if (left.previous != kNoSymbol) Insert(left.previous, count);
    if (left.next != kNoSymbol) {
      symbols_[left.next].previous = at;
      Insert(at, count);
    }
  }
  for (const Key pair : new_pairs_) {
    const auto found = pairs_.find(pair);
    if (found->second.count > 0)
      most_frequent_.push({found->second.count, pair});
    else
      pairs_.erase(found);
  }
}

void PairCounts::Remove(Token left, Token right, int64_t count) {
  const auto found = pairs_.find(KeyOf(left, right));
  if (found != pairs_.end()) found->second.count -= count;  // the pair that was taken is not there
}

void PairCounts::Insert(uint32_t at, int64_t count) {
  const Key pair = KeyOf(symbols_[at].token, symbols_[symbols_[at].next].token);
  const auto [found, is_new] = pairs_.try_emplace(pair);
  if (is_new) new_pairs_.push_back(pair);
  found->second.count += count;
  found->second.begin.push_back(at);
}

}  // namespace weft::trainer
