#include "trainer/data/held_out.h"

#include <algorithm>
#include <tuple>

#include "trainer/random.h"

namespace weft::trainer {
namespace {

constexpr uint64_t kSmallBytesMax = 64 << 10;

uint64_t HashOfName(const std::string& name) {
  uint64_t hash = Mix(name.size());
  for (const char c : name)
    hash = Mix(hash ^ uint8_t(c));
  return hash;
}

}  // namespace

std::vector<uint64_t> BytesToValidate(const std::vector<SizedText>& texts, double part) {
  std::vector<uint64_t> held_out(texts.size(), 0);
  if (part <= 0) return held_out;
  uint64_t total = 0;
  for (const SizedText& text : texts)
    total += text.bytes;

  struct Small {
    uint64_t hash;
    size_t index;
  };

  std::vector<Small> small;
  uint64_t small_bytes = 0;
  for (size_t i = 0; i < texts.size(); i++) {
    const uint64_t bytes = texts[i].bytes;
    if (bytes > kSmallBytesMax || double(bytes) > part * double(total)) {
      held_out[i] = uint64_t(part * double(bytes));
    } else {
      small.push_back({HashOfName(texts[i].name), i});
      small_bytes += bytes;
    }
  }
  // Names may be equal: of files of several folders.
  std::ranges::sort(small, [&](const Small& a, const Small& b) {
    return std::tuple(a.hash, texts[a.index].bytes, a.index) <
           std::tuple(b.hash, texts[b.index].bytes, b.index);
  });
  // If all are small the first one fits: none is larger than this.
  double left = part * double(small_bytes);
  for (const Small& text : small) {
    const uint64_t bytes = texts[text.index].bytes;
    if (double(bytes) > left) continue;
    held_out[text.index] = bytes;
    left -= double(bytes);
  }
  return held_out;
}

}  // namespace weft::trainer
