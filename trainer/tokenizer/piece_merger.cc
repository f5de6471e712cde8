#include "trainer/tokenizer/piece_merger.h"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kGone = kNone - 1;

}  // namespace

void PieceMerger::Merge(const MergeTable& table, size_t begin, std::vector<Token>* tokens) {
  const size_t count = tokens->size() - begin;
  if (count < 2) return;
  if (count >= kGone)
    throw BadInput(fmt::format(
        "{} bytes of text without a place to cut are more than one piece may have", count));
  symbols_.resize(count);
  waiting_.clear();
  for (uint32_t i = 0; i < count; i++)
    symbols_[i] = {(*tokens)[begin + i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (uint32_t i = 0; i + 1 < count; i++) {
    if (const auto* result = table.Find(symbols_[i].token, symbols_[i + 1].token))
      waiting_.push_back({result->rank, i, result->product});
  }
  std::make_heap(waiting_.begin(), waiting_.end());
  while (!waiting_.empty()) {
    std::pop_heap(waiting_.begin(), waiting_.end());
    const Waiting first = waiting_.back();
    waiting_.pop_back();
    Symbol& left = symbols_[first.at];
    if (left.next >= kGone) continue;
    Symbol& right = symbols_[left.next];
    const auto* result = table.Find(left.token, right.token);
    if (result == nullptr || result->product != first.product) continue;
    left.token = first.product;
    left.next = right.next;
    right.next = kGone;
    if (left.next != kNone) {
      symbols_[left.next].previous = first.at;
      Wait(table, first.at);
    }
    if (left.previous != kNone) Wait(table, left.previous);
  }
  size_t kept = begin;
  for (const Symbol& symbol : symbols_) {
    if (symbol.next != kGone) (*tokens)[kept++] = symbol.token;
  }
  tokens->resize(kept);
}

void PieceMerger::Wait(const MergeTable& table, uint32_t left) {
  const Symbol& symbol = symbols_[left];
  if (const auto* result = table.Find(symbol.token, symbols_[symbol.next].token)) {
    waiting_.push_back({result->rank, left, result->product});
    std::push_heap(waiting_.begin(), waiting_.end());
  }
}

}  // namespace weft::trainer
