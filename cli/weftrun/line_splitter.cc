#include "cli/weftrun/line_splitter.h"

#include <algorithm>

namespace weft {

void LineSplitter::Feed(std::string_view bytes, const LineFunction& each) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool complete = end != std::string_view::npos;
    const size_t room = kLineBytesMax - partial_.size();
    const size_t take = std::min(complete ? end + 1 : bytes.size(), room + 1);
    const std::string_view piece = bytes.substr(0, take);
    bytes.remove_prefix(take);
    partial_ += piece;
    if (piece.back() == '\n') {
      each(partial_);
      partial_.clear();
    } else if (partial_.size() > kLineBytesMax) {
      Cut(each);
    }
  }
}

void LineSplitter::Cut(const LineFunction& each) {
  // Back over continuation bytes (10xxxxxx), of which a character has at most three.
  size_t keep = kLineBytesMax;
  while (keep > kLineBytesMax - 3 && (static_cast<unsigned char>(partial_[keep]) & 0xC0) == 0x80) {
    --keep;
  }
  std::string rest = partial_.substr(keep);
  partial_.resize(keep);
  partial_ += '\n';
  each(partial_);
  partial_ = std::move(rest);
}

void LineSplitter::Finish(const LineFunction& each) {
  if (partial_.empty()) return;
  partial_ += '\n';
  each(partial_);
  partial_.clear();
}

}  // namespace weft
