// A schedule as text (docs/formats/schedule.md) and back, and the hash that names it.
//
//   const std::string text = ScheduleAsJson(*schedule);
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> read, ScheduleFromJson(text));
//   WEFT_ASSIGN_OR_RETURN(ScheduleProof proof, VerifySchedule(*read));      // a text proves nothing
//
// Apart from the schedule, because the library behind it takes long to compile.
// Thread-safety: pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/schedule/schedule.h"

namespace weft {

inline constexpr int kScheduleFormatVersion = 1;
inline constexpr size_t kScheduleTextBytesMax = 64 << 20;

// One JSON document, a line per op. The same schedule has the same text, wherever it comes from.
std::string ScheduleAsJson(const CollectiveSchedule& schedule);

// CORRUPT with a sentence if the text is too long, no JSON, of another format version, or lacks a member or has one that is not of its
// type or out of range. Whether the schedule does what it says is for VerifySchedule. Members that are not known are ignored.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleFromJson(std::string_view text);

// 64 hexadecimal digits: SHA-256 of ScheduleAsJson. Who has proved a schedule may sign this, so that others need not prove it again.
std::string ScheduleHash(const CollectiveSchedule& schedule);

}  // namespace weft
