// What ranks say of the user's schedules (foreign_schedules.h) while a group is made: all must have the same ones, or one would send what
// another one does not await.
//
//   ScheduleWord word = WordOf(rank, foreign);
//   WEFT_RETURN_IF_ERROR(HearIsland(*inner, ranks_of_island, deadline_ns, &word));      // what the island says
//   word = Together(word, *ScheduleWordFromText(what another island says));
//   WEFT_RETURN_IF_ERROR(StatusOf(word, "dp"));       // the same sentence everywhere
//
// Thread-safety: values and pure functions, but for HearIsland, which is collective over the island's ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/foreign_schedules.h"

namespace weft {

struct ScheduleWord {
  weft_result_t result = WEFT_SUCCESS;  // or MISMATCH; REMOTE_ERROR of one whose files were no good
  int rank = -1;                        // of the group
  std::string hash;                     // ForeignSchedules::hash()
  // Of a mismatch.
  int other = -1;
  std::string other_hash;

  friend bool operator==(const ScheduleWord&, const ScheduleWord&) = default;
};

ScheduleWord WordOf(int rank, const absl::StatusOr<ForeignSchedules>& foreign);

// The first one's if it is a problem, else the second one's if that is one or says the same, else that they differ.
ScheduleWord Together(const ScheduleWord& first, const ScheduleWord& second);

// Of a rank's word makes that of all. `ranks`: of the group, by rank of `inner`. Errors: as ProcessGroup::Run.
absl::Status HearIsland(ProcessGroup& inner, const std::vector<int>& ranks, int64_t deadline_ns,
                        ScheduleWord* word);

// One line.
std::string TextOf(const ScheduleWord& word);
// Nothing if the text is none.
std::optional<ScheduleWord> ScheduleWordFromText(std::string_view text);

absl::Status StatusOf(const ScheduleWord& word, const std::string& group);

}  // namespace weft
