#include "shard/optimizer/update_requests.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace weft {
namespace {

constexpr int kBits = 64;

// Where the requests stand in words. A field never overflows into the next one: it holds `ranks`.
struct RequestFields {
  explicit RequestFields(int ranks)
      : width(std::bit_width(static_cast<unsigned>(ranks))), per_word(kBits / width) {}

  size_t words() const { return static_cast<size_t>((kBits + per_word - 1) / per_word); }

  size_t WordOf(int bit) const { return static_cast<size_t>(bit / per_word); }

  int ShiftOf(int bit) const { return bit % per_word * width; }

  int width;
  int per_word;
};

}  // namespace

void AppendRequests(uint64_t requests, int ranks, std::vector<int64_t>& words) {
  const RequestFields fields(ranks);
  const size_t first = words.size();
  words.resize(first + fields.words(), 0);
  for (; requests != 0; requests &= requests - 1) {
    const int bit = std::countr_zero(requests);
    int64_t& word = words[first + fields.WordOf(bit)];
    word = static_cast<int64_t>(static_cast<uint64_t>(word) | uint64_t{1} << fields.ShiftOf(bit));
  }
}

uint64_t TakeRequests(std::vector<int64_t>& words, int ranks) {
  const RequestFields fields(ranks);
  const size_t first = words.size() - fields.words();
  const auto begin = words.begin() + static_cast<std::ptrdiff_t>(first);
  const bool none = std::all_of(begin, words.end(), [](int64_t word) { return word == 0; });
  const uint64_t field = ~uint64_t{0} >> (kBits - fields.width);
  uint64_t requests = 0;
  for (int bit = 0; bit < kBits && !none; ++bit) {
    const auto word = static_cast<uint64_t>(words[first + fields.WordOf(bit)]);
    if ((word >> fields.ShiftOf(bit) & field) != 0) requests |= uint64_t{1} << bit;
  }
  words.resize(first);
  return requests;
}

}  // namespace weft
