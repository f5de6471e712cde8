// Blocks that go between a participant and others, where only the two ends of a message know how long it is: all_to_all,
// gather and scatter with counts of their own.
//
//   ExchangeSchedule schedule(participants, self, {.sends = {{1, 0, 10}, {2, 10, 7}}, .receives = {{2, 0, 3}}});
//
// It is one participant's part alone: only OpsOf(self) means anything, and nothing can be proved of it before the parts of the others are
// known (as a test does, exchange_test.cc). Messages go in the order of the pairwise exchange (direct.cc). Blocks of no units are sent too: who
// expects another number then learns of it.
//
// Thread-safety: as CollectiveSchedule's.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/schedule/schedule.h"

namespace weft {

// Units that go to a participant, or come from it, and where they lie in the input or are taken in the output.
struct ExchangedBlock {
  int peer = -1;
  uint64_t offset = 0;
  uint64_t units = 0;
};

// In any order; the participant's own block is copied. At most one block per participant each way.
struct ExchangedBlocks {
  std::vector<ExchangedBlock> sends;
  std::vector<ExchangedBlock> receives;
};

class ExchangeSchedule final : public IndexedSchedule {
 public:
  ExchangeSchedule(int participants, int self, const ExchangedBlocks& blocks);

  std::string_view algorithm() const override { return "exchange"; }

  uint32_t window() const override { return 4; }

  bool in_place() const override { return false; }

  bool sends_empty() const override { return true; }

  std::vector<ScratchBuffer> ScratchOf(int /*participant*/) const override { return {}; }

  uint32_t OpCount(int participant) const override;
  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override;
  SentUnits SentBy(int participant) const override;

 private:
  const int self_;
  std::vector<ScheduleOp> ops_;
};

}  // namespace weft
