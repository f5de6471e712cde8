// Schedules that the user has put in place of weft's own: files in the format of docs/formats/schedule.md, named by WEFT_SCHEDULE_FILE.
//
//   WEFT_ASSIGN_OR_RETURN(const ForeignSchedules foreign, ForeignSchedules::Read("/etc/ring8.json:/etc/tree8.json"));
//   if (const ForeignSchedule* const one = foreign.Find(goal, /*any_order=*/false)) ... one->ForCount(goal.count)
//
// Nothing is carried out that was not proved: each schedule is, when it is read (VerifySchedule). It serves calls of its kind, number of ranks
// and root whose count is a multiple of its own; each of its units is so many elements then. One whose sums may be in any order serves
// calls alone that have the same bits in any order, or are float32 or float64 and do not ask for that (WEFT_NUMERICS_FAST). Of several that serve a call the first
// one is taken.
//
// Thread-safety: a value; constant once it was read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/schedule/schedule.h"

namespace weft {

struct ForeignSchedule {
  std::string path;
  std::string hash;  // ScheduleHash
  std::shared_ptr<const CollectiveSchedule> schedule;

  // Of a count that is a multiple of its own.
  std::unique_ptr<CollectiveSchedule> ForCount(uint64_t count) const;

  // Beside the call's, in the signature that its messages carry.
  uint32_t Signature() const;
};

class ForeignSchedules {
 public:
  // None.
  ForeignSchedules() = default;

  // `paths`: files with colons between them; "": none. Errors name the file: SystemError() if it cannot be read, CORRUPT if it is no
  // schedule, INVALID_ARGUMENT with the verifier's sentence if it does not do what it says, UNSUPPORTED if it cannot be carried out.
  // Time: that of the proofs.
  static absl::StatusOr<ForeignSchedules> Read(std::string_view paths);

  // nullptr: none serves the goal. any_order: sums may be formed in any order.
  const ForeignSchedule* Find(const ScheduleGoal& goal, bool any_order) const;

  // 64 hexadecimal digits of all of them in their order, which all ranks must have alike; "" of none.
  const std::string& hash() const { return hash_; }

 private:
  std::vector<ForeignSchedule> schedules_;
  std::string hash_;
};

}  // namespace weft
