#include "tests/gpu/kernel_arena.h"

#include <cstdint>
#include <cstring>

namespace weft::test {
namespace {

constexpr size_t kPieceAlignment = 128;
constexpr char kCanary = '\xa5';

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena() : image_(kPieceAlignment, kCanary) {}

size_t Arena::Add(const std::vector<char>& contents, size_t shift) {
  const size_t offset = RoundUp(image_.size(), kPieceAlignment) + shift;
  offsets_.push_back(offset);
  sizes_.push_back(contents.size());
  image_.resize(RoundUp(offset + contents.size(), kPieceAlignment) + kPieceAlignment, kCanary);
  if (!contents.empty()) std::memcpy(image_.data() + offset, contents.data(), contents.size());
  return offsets_.size() - 1;
}

size_t Arena::PieceOf(size_t byte) const {
  for (size_t piece = 0; piece < offsets_.size(); ++piece) {
    if (byte >= offsets_[piece] && byte < offsets_[piece] + sizes_[piece]) return piece;
  }
  return offsets_.size();
}

AlignedBytes::AlignedBytes(const std::vector<char>& contents)
    : storage_(contents.size() + kArenaAlignment) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  skipped_ = (kArenaAlignment - address % kArenaAlignment) % kArenaAlignment;
  std::memcpy(at(), contents.data(), contents.size());
}

}  // namespace weft::test
