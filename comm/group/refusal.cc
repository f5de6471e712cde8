// A refusal is an all_to_all of single bytes: every rank hears of it from the rank itself, whichever way the others' call
// would have gone.
#include "comm/group/refusal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Behind the number of the refusal, which is the step of its purpose.
constexpr size_t kReasonBytes = sizeof(WaitNotice) - sizeof(uint64_t);

WaitNotice NoticeOf(uint64_t record, std::string_view reason) {
  std::array<char, kReasonBytes> text{};
  std::memcpy(text.data(), reason.data(), std::min(reason.size(), kReasonBytes - 1));
  WaitNotice notice{UnpackPurpose(record).step};
  std::memcpy(notice.data() + 1, text.data(), kReasonBytes);
  return notice;
}

int PlaceOf(uint64_t number) {
  return NoticeBoard::kRefusalPlace + static_cast<int>(number % NoticeBoard::kRefusalPlaces);
}

}  // namespace

Refusals::Refusals(int size) : in_(static_cast<size_t>(size)), out_(static_cast<size_t>(size)) {}

absl::StatusOr<uint64_t> Refusals::Take(const ProcessGroup& group, NoticeBoard* board,
                                        std::optional<OpKind> refused, std::string_view reason) {
  MutexLock lock(mutex_);
  std::erase_if(pending_, [](const Pending& one) { return one.work && one.work->ended(); });
  if (pending_.size() >= kPendingMax) {
    return MakeError(
        WEFT_OUT_OF_MEMORY, {.group = group.name()},
        fmt::format("group {}: the other ranks have not come to {} calls that rank {} has refused",
                    group.name(), pending_.size(), group.rank()));
  }
  const uint64_t record = PackPurpose({.kind = Purpose::Kind::kRefusal,
                                       .subject = refused ? static_cast<int>(*refused) : -1,
                                       .step = ++count_});
  const uint64_t number = UnpackPurpose(record).step;  // begins again after 2^20
  const bool taken = std::any_of(pending_.begin(), pending_.end(), [&](const Pending& one) {
    return PlaceOf(one.number) == PlaceOf(number);
  });
  if (!taken && board != nullptr) board->Show(PlaceOf(number), NoticeOf(record, reason));
  pending_.push_back({number, refused, std::string(reason.substr(0, kReasonBytes - 1)), nullptr});
  return record;
}

void Refusals::Began(uint64_t number, absl::StatusOr<WorkRef> work) {
  MutexLock lock(mutex_);
  const auto one = std::find_if(pending_.begin(), pending_.end(),
                                [&](const Pending& other) { return other.number == number; });
  if (one == pending_.end()) return;  // the group is closed
  if (work.ok() && !closed_ && !(*work)->ended()) {
    one->work = *std::move(work);
  } else {
    pending_.erase(one);
  }
}

// Starting may run callbacks of other works, which may refuse a call themselves.
absl::Status Refusals::Refuse(ProcessGroup& group, NoticeBoard* board,
                              std::optional<OpKind> refused, std::string_view reason) {
  WEFT_RETURN_IF_ERROR(group.error());  // or a reason that others have not read yet might make way
  WEFT_ASSIGN_OR_RETURN(const uint64_t record, Take(group, board, refused, reason));
  absl::StatusOr<WorkRef> work =
      group.Start({.kind = OpKind::kAllToAll,
                   .count = 1,
                   .purpose = {.signature_salt = SignatureSaltOf({.kind = Purpose::Kind::kRefusal}),
                               .record = record},
                   .in = in_.data(),
                   .out = out_.data(),
                   .timeout_ns = std::numeric_limits<int64_t>::max()});
  absl::Status status = work.status();
  Began(UnpackPurpose(record).step, std::move(work));
  return status;
}

uint64_t Refusals::pending() const {
  MutexLock lock(mutex_);
  return static_cast<uint64_t>(
      std::count_if(pending_.begin(), pending_.end(),
                    [](const Pending& one) { return one.work && !one.work->ended(); }));
}

absl::Status Refusals::Cause(const ProcessGroup& group) const {
  MutexLock lock(mutex_);
  const auto oldest = std::find_if(pending_.begin(), pending_.end(), [](const Pending& one) {
    return one.work && !one.work->ended();
  });
  if (oldest == pending_.end()) return absl::OkStatus();
  return MakeError(
      WEFT_MISMATCH,
      {.rank = group.rank(), .group = group.name(), .world_rank = group.world_rank(group.rank())},
      fmt::format("group {}: rank {} refused {}, and has left; rank {} says: {}", group.name(),
                  group.rank(), oldest->refused ? OpKindName(*oldest->refused) : "a call",
                  group.rank(), oldest->reason));
}

void Refusals::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  pending_.clear();
}

std::string RefusalText(int rank, uint64_t purpose_record,
                        const std::function<uint64_t(int place, WaitNotice* notice)>& read) {
  if (!IsRefusal(purpose_record)) return "";
  const uint64_t number = UnpackPurpose(purpose_record).step;
  WaitNotice notice;
  if (read(PlaceOf(number), &notice) == 0 || notice[0] != number) return "";
  std::array<char, kReasonBytes> text;
  std::memcpy(text.data(), notice.data() + 1, kReasonBytes);
  text.back() = '\0';
  return fmt::format("; rank {} says: {}", rank, text.data());
}

}  // namespace weft
