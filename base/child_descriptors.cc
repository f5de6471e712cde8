// A bit for each descriptor, which the handler in the child reads as it is: whoever was about to change it in the parent does not exist there.
// Nothing is searched for where a descriptor is made or closed; the child looks at the bits of all numbers up to the highest that was ever kept.
#include "base/child_descriptors.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <pthread.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_fd.h"

namespace weft {
namespace {

constexpr int kWordBits = 64;

std::array<std::atomic<uint64_t>, kKeptEnd / kWordBits> kept{};
// No word from here on ever had a bit. It grows before the bit is set, so whoever sees the bit sees the word.
std::atomic<size_t> words_used{0};

size_t WordOf(int fd) {
  return static_cast<size_t>(fd) / kWordBits;
}

uint64_t BitOf(int fd) {
  return uint64_t{1} << (fd % kWordBits);
}

void GiveUpInChild() {
  const UniqueFd instead = MakeEvent(0);
  const size_t words = words_used.load();
  for (size_t word = 0; word < words; ++word) {
    uint64_t bits = kept[word].exchange(0);
    for (; bits != 0; bits &= bits - 1) {
      const int fd = static_cast<int>(word) * kWordBits + std::countr_zero(bits);
      if (!instead.valid() || !ReplaceFd(fd, instead.get())) close(fd);
    }
  }
}

}  // namespace

void KeepFromChildren(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, GiveUpInChild);
  if (registered != 0 || fd < 0 || fd >= kKeptEnd) return;
  const size_t needed = WordOf(fd) + 1;
  size_t used = words_used.load();
  while (used < needed) {
    if (words_used.compare_exchange_weak(used, needed)) break;
  }
  kept[WordOf(fd)].fetch_or(BitOf(fd));
}

void ForgetKept(int fd) {
  if (fd < 0 || fd >= kKeptEnd) return;
  kept[WordOf(fd)].fetch_and(~BitOf(fd));
}

}  // namespace weft
