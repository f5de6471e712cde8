// A schedule for a multiple of another one's count: each of its units is so many.
//
//   ScaledSchedule scaled(schedule, 250);      // of 4 units: 1000
//
// Units do not depend on each other, so what was proved of one is true of all that stand in its place: the scaled schedule needs no
// proof of its own.
//
// Thread-safety: as CollectiveSchedule's. Shares the other schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/schedule/schedule.h"

namespace weft {

class ScaledSchedule final : public CollectiveSchedule {
 public:
  // factor: at least 1.
  ScaledSchedule(std::shared_ptr<const CollectiveSchedule> schedule, uint64_t factor);

  std::string_view algorithm() const override { return schedule_->algorithm(); }

  uint32_t window() const override { return schedule_->window(); }

  bool sends_empty() const override { return schedule_->sends_empty(); }

  bool in_place() const override { return schedule_->in_place(); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override;
  std::unique_ptr<OpStream> OpsOf(int participant) const override;
  SentUnits SentBy(int participant) const override;

 private:
  const std::shared_ptr<const CollectiveSchedule> schedule_;
  const uint64_t factor_;
};

}  // namespace weft
