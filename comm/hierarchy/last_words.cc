#include "comm/hierarchy/last_words.h"

#include <utility>

#include "base/status.h"

namespace weft {

void LastWords::Add(FailureRecord record, uint32_t epoch) {
  if (words_.size() >= kWordsMax) words_.pop_front();
  words_.push_back({.record = std::move(record), .epoch = epoch});
}

void LastWords::Drop(const std::function<bool(uint64_t group_id)>& settled, uint32_t epoch) {
  std::erase_if(words_, [&](const Word& word) {
    return word.epoch != epoch || settled(word.record.group_id);
  });
}

bool LastWords::Say(const std::function<absl::Status(const FailureRecord& record)>& tell) {
  bool any = false;
  for (Word& word : words_) {
    if (word.said) continue;
    // One that comes too late to count is waited for all the same: the group's end is being told.
    word.said = ResultOf(tell(word.record)) != WEFT_OUT_OF_MEMORY;
    any |= word.said;
  }
  return any;
}

void LastWords::SayAgain() {
  for (Word& word : words_)
    word.said = false;
}

}  // namespace weft
