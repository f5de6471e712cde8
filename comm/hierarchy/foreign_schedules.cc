#include "comm/hierarchy/foreign_schedules.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fcntl.h>

#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/reduce_arguments.h"
#include "comm/schedule/scaled_schedule.h"
#include "comm/schedule/schedule_json.h"
#include "comm/schedule/verify_schedule.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Of all participants, for each unit of the vectors that are moved. Weft's own need two at most.
constexpr uint64_t kScratchPerUnitMax = 64;
// Each has some 350 bytes where it is carried out.
constexpr uint32_t kWindowMax = 1 << 16;

absl::Status Unsupported(const std::string& why) {
  return MakeError(WEFT_UNSUPPORTED, why);
}

// What a proved schedule may still ask of who carries it out.
absl::Status CheckDemands(const CollectiveSchedule& schedule) {
  const ScheduleGoal& goal = schedule.goal();
  if (goal.order.pieces() != 0)
    return Unsupported("it adds in an order of its own, which no call asks for");
  if (!goal.blocks.empty())
    return Unsupported("its blocks differ; calls of one count alone have schedules");
  if (schedule.window() > kWindowMax) {
    return Unsupported(fmt::format("{} of its ops must be able to be under way at once; {} can be",
                                   schedule.window(), kWindowMax));
  }
  const uint64_t units = goal.kind == GoalKind::kBarrier ? 0 : goal.BlocksUnits();
  for (int participant = 0; participant < goal.participants; ++participant) {
    uint64_t left = units * kScratchPerUnitMax;
    for (const ScratchBuffer& buffer : schedule.ScratchOf(participant)) {
      if (buffer.units > left) {
        return Unsupported(fmt::format("participant {} needs more than {} units of scratch for {}",
                                       participant, units * kScratchPerUnitMax, units));
      }
      left -= buffer.units;
    }
    const std::unique_ptr<OpStream> ops = schedule.OpsOf(participant);
    for (ScheduleOp op; ops->Next(&op);) {
      if (op.action == OpAction::kReduce && SourceCount(op) > kSourcesMax) {
        return Unsupported(fmt::format("participant {} adds {} sources at once; {} are possible",
                                       participant, SourceCount(op), kSourcesMax));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ForeignSchedule> ReadOne(const std::string& path) {
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return SystemError(errno, "opening it");
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(fd.get(), kScheduleTextBytesMax + 1, "reading it"));
  ForeignSchedule one{.path = path};
  WEFT_ASSIGN_OR_RETURN(one.schedule, ScheduleFromJson(text));
  WEFT_RETURN_IF_ERROR(VerifySchedule(*one.schedule).status());
  WEFT_RETURN_IF_ERROR(CheckDemands(*one.schedule));
  one.hash = ScheduleHash(*one.schedule);
  return one;
}

std::string HashOf(const std::vector<ForeignSchedule>& schedules) {
  if (schedules.empty()) return "";
  Sha256 hash;
  for (const ForeignSchedule& one : schedules)
    hash.Update(one.hash);
  std::string digits;
  for (const uint8_t byte : hash.Finish())
    digits += fmt::format("{:02x}", byte);
  return digits;
}

}  // namespace

std::unique_ptr<CollectiveSchedule> ForeignSchedule::ForCount(uint64_t count) const {
  const uint64_t own = schedule->goal().count;
  return std::make_unique<ScaledSchedule>(schedule, own == 0 ? 1 : count / own);
}

uint32_t ForeignSchedule::Signature() const {
  uint32_t number = 0;
  (void)std::from_chars(hash.data(), hash.data() + 8, number, 16);
  return number;
}

absl::StatusOr<ForeignSchedules> ForeignSchedules::Read(std::string_view paths) {
  ForeignSchedules foreign;
  if (paths.empty()) return foreign;
  for (const absl::string_view path : absl::StrSplit(ToAbsl(paths), ':', absl::SkipEmpty())) {
    absl::StatusOr<ForeignSchedule> one = ReadOne(std::string(path));
    if (!one.ok()) {
      return Annotate(one.status(),
                      StrCat("WEFT_SCHEDULE_FILE: ", FromAbsl(path), " is not carried out: "));
    }
    foreign.schedules_.push_back(*std::move(one));
  }
  foreign.hash_ = HashOf(foreign.schedules_);
  return foreign;
}

const ForeignSchedule* ForeignSchedules::Find(const ScheduleGoal& goal, bool any_order) const {
  const bool one_vector_each = goal.blocks.empty() && goal.order.pieces() == 0;
  const auto serves = [&](const ForeignSchedule& one) {
    const ScheduleGoal& own = one.schedule->goal();
    if (own.kind != goal.kind || own.participants != goal.participants || own.root != goal.root)
      return false;
    if (own.Reduces() && own.order_free && !any_order) return false;
    if (own.count == 0) return goal.count == 0;
    return goal.count > 0 && goal.count % own.count == 0;
  };
  const auto found = std::find_if(schedules_.begin(), schedules_.end(), serves);
  return one_vector_each && found != schedules_.end() ? &*found : nullptr;
}

}  // namespace weft
