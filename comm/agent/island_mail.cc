// A place is a version, which is odd while it is written, a length, and the record as it goes between islands. Words are atomic, written
// with release and read with acquire: who has read a word of a later write finds another version after it.
#include "comm/agent/island_mail.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/cache_line.h"
#include "base/check.h"

namespace weft {
namespace {

constexpr size_t kRecordBytes =
    256 + 4 * kFailureWayMax + kFailureOperationMax + kFailureSentenceMax;
constexpr size_t kPlaceBytes =
    (16 + kRecordBytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;

}  // namespace

size_t IslandMail::BytesFor(int process_count) {
  return kPlaceBytes * static_cast<size_t>(process_count);
}

std::atomic<uint64_t>& IslandMail::Word(int process, size_t index) const {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  std::byte* const place = block_ + static_cast<size_t>(process) * kPlaceBytes;
  return reinterpret_cast<std::atomic<uint64_t>*>(place)[index];
}

void IslandMail::Post(const FailureRecord& record) {
  GroupVerdict verdict{.record = record};
  verdict.record.sentence.resize(std::min(record.sentence.size(), kFailureSentenceMax));
  std::string bytes = EncodeVerdictOf(verdict);
  const size_t length = bytes.size();
  WEFT_CHECK(length <= kRecordBytes);
  bytes.resize((length + 7) / 8 * 8);
  const uint64_t version = Word(process_, 0).load(std::memory_order_relaxed);
  Word(process_, 0).store(version + 1, std::memory_order_seq_cst);
  Word(process_, 1).store(length, std::memory_order_release);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    Word(process_, 2 + i / 8).store(word, std::memory_order_release);
  }
  Word(process_, 0).store(version + 2, std::memory_order_release);
}

std::optional<FailureRecord> IslandMail::Read(int process, uint64_t* version) const {
  const uint64_t before = Word(process, 0).load(std::memory_order_acquire);
  if (before == *version || before % 2 != 0) return std::nullopt;
  const size_t length =
      std::min<size_t>(Word(process, 1).load(std::memory_order_acquire), kRecordBytes);
  std::string bytes((length + 7) / 8 * 8, '\0');
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = Word(process, 2 + i / 8).load(std::memory_order_acquire);
    std::memcpy(bytes.data() + i, &word, sizeof(word));
  }
  if (Word(process, 0).load(std::memory_order_acquire) != before) return std::nullopt;
  *version = before;
  bytes.resize(length);
  // A process that writes what is no record says nothing.
  absl::StatusOr<GroupVerdict> verdict = DecodeVerdictOf(bytes, 0);
  if (!verdict.ok()) return std::nullopt;
  return std::move(verdict->record);
}

}  // namespace weft
