// Why a group has ended, in memory that its ranks share: a record per rank, and one word that says whose counts.
//
//   FailureBoard board = FailureBoard::Create(word, zeroed, size);   // one rank; the others: FailureBoard(word, base, size)
//   if (FailureBoard::Raised(word)) return board.Cause(group);
//   board.Raise(rank, status);                                       // unless somebody was quicker
//
// Many ranks find the same failure at the same time, each a different consequence of it, and the user shall read one
// sentence, the same on all of them. So who finds one writes a record of its own and then claims the word; all else
// follows from the order: records are written before they can be read and never again, and only an abort, which says
// nothing of a cause, gives way to a death, a mismatch or a deadline that it did not bring about.
//
// It knows nothing of what the ranks do: a group of another kind has one in its own memory. The word is apart from the records,
// because who polls it should find it at a constant distance from what it reads anyway.
//
// Thread-safety: any thread of any rank; Raise by one thread of a rank at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace weft {

class FailureBoard {
 public:
  FailureBoard() = default;
  // A view of what Create() has made: the word, in a line that nobody else writes, and the records at `base`, aligned to 64.
  FailureBoard(std::atomic<uint64_t>& word, char* base, int size);

  // Of the records.
  static constexpr size_t Bytes(int size) { return static_cast<size_t>(size) * sizeof(Record); }

  static FailureBoard Create(std::atomic<uint64_t>& word, char* base, int size);

  static bool Raised(const std::atomic<uint64_t>& word) {
    return word.load(std::memory_order_seq_cst) != 0;
  }

  // What was raised, in terms of the group `group`; Ok if nothing was. CORRUPT if it cannot have been written by a rank.
  absl::Status Cause(const std::string& group) const;

  // Says that the group has ended by `status`, which rank `finder` has found, unless it is known to have ended already; true
  // if that is said now.
  bool Raise(int finder, const absl::Status& status) const;

  // `rank` has seen that the group has ended, and touches no memory of others any more. What it does then is no cause.
  void Acknowledge(int rank) const;

 private:
  // Written by its rank only; read when the word names that rank.
  struct alignas(64) Record {
    int32_t culprit;
    int32_t pid;
    int32_t signal;
    int32_t exit_code;
    int64_t sequence;
    int32_t world_rank;
    std::atomic<uint32_t> acknowledged;
    char host[64];
    char operation[32];
    char text[640];
  };

  // Packed so that the first writer wins: result code, finder, nonzero if raised.
  struct Word {
    uint16_t result = 0;
    uint16_t finder = 0;

    uint64_t Pack() const { return uint64_t{1} << 32 | uint64_t{finder} << 16 | result; }

    static Word Unpack(uint64_t word) {
      return {static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16)};
    }
  };

  Record& RecordOf(int rank) const { return records_[rank]; }

  bool MayReplace(uint64_t recorded, int finder, const absl::Status& status) const;

  std::atomic<uint64_t>* word_ = nullptr;
  Record* records_ = nullptr;
  int size_ = 0;
};

}  // namespace weft
