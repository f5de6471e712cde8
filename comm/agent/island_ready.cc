// A place is a cache line of words. The attempt is 0 while the others are written, so whoever reads the same one before and after has them
// whole. An answer: the low 24 bits of the attempt (40-63), the result (32-39), 1 + the rank (0-31).
#include "comm/agent/island_ready.h"

#include "base/cache_line.h"

namespace weft {
namespace {

constexpr int kAttemptShift = 40;
constexpr int kResultShift = 32;
constexpr uint64_t kResultMask = 0xff;
constexpr uint64_t kAttemptMask = 0xffffff;

}  // namespace

size_t IslandReady::BytesFor(int process_count) {
  return kCacheLineBytes * static_cast<size_t>(process_count);
}

std::atomic<uint64_t>& IslandReady::At(int process, Word word) const {
  std::byte* const place = block_ + static_cast<size_t>(process) * kCacheLineBytes;
  return reinterpret_cast<std::atomic<uint64_t>*>(place)[word];
}

uint32_t IslandReady::Ask(uint32_t epoch, int64_t deadline_ns) {
  Withdraw();
  At(process_, kEpoch).store(epoch, std::memory_order_release);
  At(process_, kDeadline).store(static_cast<uint64_t>(deadline_ns), std::memory_order_release);
  At(process_, kAttempt).store(++asked_, std::memory_order_seq_cst);
  return asked_;
}

void IslandReady::Withdraw() {
  At(process_, kAttempt).store(0, std::memory_order_seq_cst);
}

std::optional<IslandReady::Answer> IslandReady::AnswerTo(uint32_t attempt) const {
  const uint64_t word = At(process_, kAnswer).load(std::memory_order_acquire);
  if (word == 0 || word >> kAttemptShift != (attempt & kAttemptMask)) return std::nullopt;
  return Answer{.result = static_cast<weft_result_t>(word >> kResultShift & kResultMask),
                .world_rank = static_cast<int>(static_cast<uint32_t>(word)) - 1};
}

std::optional<IslandReady::Wish> IslandReady::WishOf(int process) const {
  const uint64_t before = At(process, kAttempt).load(std::memory_order_seq_cst);
  if (before == 0) return std::nullopt;
  const Wish wish{
      .attempt = static_cast<uint32_t>(before),
      .epoch = static_cast<uint32_t>(At(process, kEpoch).load(std::memory_order_acquire)),
      .deadline_ns = static_cast<int64_t>(At(process, kDeadline).load(std::memory_order_acquire))};
  if (At(process, kAttempt).load(std::memory_order_seq_cst) != before) return std::nullopt;
  return wish;
}

void IslandReady::Say(int process, uint32_t attempt, const Answer& answer) {
  const uint64_t word = uint64_t{attempt & kAttemptMask} << kAttemptShift |
                        (static_cast<uint64_t>(answer.result) & kResultMask) << kResultShift |
                        static_cast<uint32_t>(answer.world_rank + 1);
  At(process, kAnswer).store(word, std::memory_order_release);
}

}  // namespace weft
