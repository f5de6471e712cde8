#include "comm/agent/island_mail.h"

#include <algorithm>
#include <string>

namespace weft {
namespace {

// As it goes between islands.
constexpr size_t kRecordBytes =
    256 + 4 * kFailureWayMax + kFailureOperationMax + kFailureSentenceMax;

}  // namespace

size_t IslandMail::BytesFor(int process_count) {
  return SharedText::BytesFor(kRecordBytes) * static_cast<size_t>(process_count);
}

SharedText IslandMail::Place(int process) const {
  return {block_ + static_cast<size_t>(process) * SharedText::BytesFor(kRecordBytes), kRecordBytes};
}

void IslandMail::Post(const FailureRecord& record) {
  GroupVerdict verdict{.record = record};
  verdict.record.sentence.resize(std::min(record.sentence.size(), kFailureSentenceMax));
  Place(process_).Write(EncodeVerdictOf(verdict));
}

std::optional<FailureRecord> IslandMail::Read(int process, uint64_t* version) const {
  const std::optional<std::string> bytes = Place(process).Read(version);
  if (!bytes) return std::nullopt;
  // A process that writes what is no record says nothing.
  absl::StatusOr<GroupVerdict> verdict = DecodeVerdictOf(*bytes, 0);
  if (!verdict.ok()) return std::nullopt;
  return std::move(verdict->record);
}

}  // namespace weft
