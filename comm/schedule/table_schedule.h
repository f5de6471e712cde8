// A schedule whose ops are stored: one that was read from a file, or changed by a test.
//
//   ScheduleTable table = TableOf(*schedule);
//   table.participants[2].ops[5].peer = 1;
//   const TableSchedule changed(std::move(table));
//
// Thread-safety: as CollectiveSchedule's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/schedule/schedule.h"

namespace weft {

struct TableParticipant {
  std::vector<ScratchBuffer> scratch;
  std::vector<ScheduleOp> ops;
  SentUnits sent;
};

struct ScheduleTable {
  std::string algorithm;
  ScheduleGoal goal;
  uint32_t window = 1;
  bool in_place = false;
  std::vector<TableParticipant> participants;  // as many as the goal has
  std::vector<std::vector<uint8_t>> merges;    // that the ops name; not to be changed while ops do
};

// All of `schedule`, with memory of its own.
ScheduleTable TableOf(const CollectiveSchedule& schedule);

class TableSchedule final : public CollectiveSchedule {
 public:
  explicit TableSchedule(ScheduleTable table)
      : CollectiveSchedule(table.goal), table_(std::move(table)) {}

  std::string_view algorithm() const override { return table_.algorithm; }

  uint32_t window() const override { return table_.window; }

  bool in_place() const override { return table_.in_place; }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    return At(participant).scratch;
  }

  std::unique_ptr<OpStream> OpsOf(int participant) const override;

  SentUnits SentBy(int participant) const override { return At(participant).sent; }

 private:
  const TableParticipant& At(int participant) const {
    return table_.participants[static_cast<size_t>(participant)];
  }

  const ScheduleTable table_;
};

}  // namespace weft
