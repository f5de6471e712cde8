#include "comm/node/failure_board.h"

#include <cstring>
#include <new>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

template <size_t N>
std::string ReadText(const char (&from)[N]) {
  return std::string(from, strnlen(from, N));
}

}  // namespace

FailureBoard::FailureBoard(std::atomic<uint64_t>& word, char* base, int size)
    : word_(&word), records_(reinterpret_cast<Record*>(base)), size_(size) {}

FailureBoard FailureBoard::Create(std::atomic<uint64_t>& word, char* base, int size) {
  word.store(0, std::memory_order_relaxed);
  const FailureBoard board(word, base, size);
  for (int rank = 0; rank < size; ++rank)
    new (&board.RecordOf(rank)) Record{};
  return board;
}

absl::Status FailureBoard::Cause(const std::string& group) const {
  const uint64_t recorded = word_->load(std::memory_order_seq_cst);
  if (recorded == 0) return absl::OkStatus();
  const Word word = Word::Unpack(recorded);
  if (word.finder >= size_) {
    return MakeError(WEFT_CORRUPT, fmt::format("group {}: its abort word names rank {} of {}",
                                               group, word.finder, size_));
  }
  const Record& record = RecordOf(word.finder);
  ErrorFields fields;
  fields.rank = record.culprit;
  fields.pid = record.pid;
  fields.signal = record.signal;
  fields.exit_code = record.exit_code;
  fields.sequence = record.sequence;
  fields.host = ReadText(record.host);
  fields.group = group;
  fields.operation = ReadText(record.operation);
  fields.world_rank = record.world_rank;
  return MakeError(static_cast<weft_result_t>(word.result), fields, ReadText(record.text));
}

// What is found after an abort is its consequence, unless it cannot be: ranks that have heard of the abort may end as
// they like, and the aborting one before all. Whoever aborts has looked for the dead.
bool FailureBoard::MayReplace(uint64_t recorded, int finder, const absl::Status& status) const {
  if (recorded == 0) return true;
  const Word word = Word::Unpack(recorded);
  // A record is not written again while it may be read.
  if (word.result != WEFT_ABORTED || word.finder == finder) return false;
  const weft_result_t result = ResultOf(status);
  if (result == WEFT_MISMATCH || result == WEFT_TIMEOUT) return true;
  const ErrorFields fields = FieldsOf(status);
  const bool died = result == WEFT_PEER_LOST && (fields.signal >= 0 || fields.exit_code >= 0);
  return died && fields.rank >= 0 && fields.rank != word.finder &&
         RecordOf(fields.rank).acknowledged.load(std::memory_order_seq_cst) == 0;
}

bool FailureBoard::Raise(int finder, const absl::Status& status) const {
  uint64_t recorded = word_->load(std::memory_order_seq_cst);
  while (MayReplace(recorded, finder, status)) {
    const ErrorFields fields = FieldsOf(status);
    Record& record = RecordOf(finder);
    record.culprit = fields.rank;
    record.pid = fields.pid;
    record.signal = fields.signal;
    record.exit_code = fields.exit_code;
    record.sequence = fields.sequence;
    record.world_rank = fields.world_rank;
    CopyText(record.host, fields.host);
    CopyText(record.operation, fields.operation);
    CopyText(record.text, std::string(status.message()));
    const Word own{static_cast<uint16_t>(ResultOf(status)), static_cast<uint16_t>(finder)};
    if (word_->compare_exchange_strong(recorded, own.Pack(), std::memory_order_seq_cst))
      return true;
  }
  return false;
}

void FailureBoard::Acknowledge(int rank) const {
  RecordOf(rank).acknowledged.store(1, std::memory_order_seq_cst);
}

}  // namespace weft
