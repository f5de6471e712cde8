#include "comm/hierarchy/schedule_word.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr size_t kHashDigits = 64;
constexpr std::string_view kNoHash = "-";

// A rank's word between the ranks of an island.
struct Said {
  int32_t result;
  char hash[kHashDigits];  // zeros: none
};

std::string HashText(const std::string& hash) {
  return hash.empty() ? std::string(kNoHash) : hash;
}

bool ReadHash(absl::string_view text, std::string* hash) {
  if (FromAbsl(text) == kNoHash) return true;
  hash->assign(FromAbsl(text));
  return hash->size() == kHashDigits && std::all_of(hash->begin(), hash->end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string Which(const std::string& hash) {
  return hash.empty() ? "no schedules of its own" : "those with hash " + hash;
}

}  // namespace

ScheduleWord WordOf(int rank, const absl::StatusOr<ForeignSchedules>& foreign) {
  ScheduleWord word{.rank = rank};
  if (foreign.ok()) {
    word.hash = foreign->hash();
  } else {
    word.result = WEFT_REMOTE_ERROR;
  }
  return word;
}

ScheduleWord Together(const ScheduleWord& first, const ScheduleWord& second) {
  if (first.result != WEFT_SUCCESS) return first;
  if (second.result != WEFT_SUCCESS) return second;
  if (first.hash == second.hash) return first;
  return {.result = WEFT_MISMATCH,
          .rank = first.rank,
          .hash = first.hash,
          .other = second.rank,
          .other_hash = second.hash};
}

absl::Status HearIsland(ProcessGroup& inner, const std::vector<int>& ranks, int64_t deadline_ns,
                        ScheduleWord* word) {
  Said mine{.result = word->result, .hash = {}};
  std::memcpy(mine.hash, word->hash.data(), std::min(word->hash.size(), kHashDigits));
  std::vector<Said> all(ranks.size());
  Collective gather{.kind = OpKind::kAllGather,
                    .dtype = WEFT_UINT8,
                    .count = sizeof(Said),
                    .in = &mine,
                    .out = all.data()};
  gather.timeout_ns = std::max<int64_t>(1, deadline_ns - MonotonicNs());
  WEFT_RETURN_IF_ERROR(inner.Run(gather));
  for (size_t at = 0; at < all.size(); ++at) {
    const Said& said = all[at];
    const ScheduleWord one{.result = static_cast<weft_result_t>(said.result),
                           .rank = ranks[at],
                           .hash = std::string(said.hash, said.hash[0] == '\0' ? 0 : kHashDigits)};
    *word = at == 0 ? one : Together(*word, one);
  }
  return absl::OkStatus();
}

std::string TextOf(const ScheduleWord& word) {
  return fmt::format("schedules {} {} {} {} {}", static_cast<int>(word.result), word.rank,
                     HashText(word.hash), word.other, HashText(word.other_hash));
}

std::optional<ScheduleWord> ScheduleWordFromText(std::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(ToAbsl(text), ' ');
  ScheduleWord word;
  int result = 0;
  const bool read = parts.size() == 6 && parts[0] == "schedules" &&
                    absl::SimpleAtoi(parts[1], &result) && absl::SimpleAtoi(parts[2], &word.rank) &&
                    ReadHash(parts[3], &word.hash) && absl::SimpleAtoi(parts[4], &word.other) &&
                    ReadHash(parts[5], &word.other_hash);
  if (!read) return std::nullopt;
  word.result = static_cast<weft_result_t>(result);
  return word;
}

absl::Status StatusOf(const ScheduleWord& word, const std::string& group) {
  if (word.result == WEFT_SUCCESS) return absl::OkStatus();
  const ErrorFields fields{.rank = word.rank, .group = group};
  if (word.result == WEFT_MISMATCH) {
    return MakeError(
        WEFT_MISMATCH, fields,
        fmt::format("group {}: rank {} has {}, rank {} has {}; all ranks must have the same "
                    "WEFT_SCHEDULE_FILE",
                    group, word.rank, Which(word.hash), word.other, Which(word.other_hash)));
  }
  return MakeError(WEFT_REMOTE_ERROR, fields,
                   fmt::format("group {}: rank {} cannot use its WEFT_SCHEDULE_FILE; its own error "
                               "says why",
                               group, word.rank));
}

}  // namespace weft
