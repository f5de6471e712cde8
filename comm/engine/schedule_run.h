// One participant's part of a collective, carried out: the ops of a schedule over a transport, as a state machine that whoever waits
// steps.
//
//   ScheduleRun run(schedule, participant, arithmetic);
//   run.Begin(memory, {.transport = &transport, .peers = ranks, .stream = stream, .signature = signature});
//   while (!run.done() && run.failed() == nullptr) {
//     run.Step();
//     transport.Advance();
//   }
//
// It keeps to the rules S1 to S6 of schedule.h, so what VerifySchedule has proved of the schedule holds. Sums are formed by the
// stepping thread, one op at a time.
//
// A run that has ended may begin again, for the next call of its shape: a list of few ops is made once.
//
// A run that is given up is not destroyed before its group has been closed in the transport: its transfers are the transport's until
// then.
//
// Thread-safety: none; one thread at a time. Memory: about 350 bytes for each op that may be under way, which are window(), or a few
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/engine/sent_traffic.h"
#include "comm/engine/unit_arithmetic.h"
#include "comm/schedule/schedule.h"
#include "comm/transport/transfer.h"
#include "comm/transport/transport.h"

namespace weft {

// Where a participant's buffers are. Input and partials are only read. In place, where the schedule allows that: input and output as
// they lie.
struct RunMemory {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* partials = nullptr;
  std::byte* scratch = nullptr;  // ScheduleRun::ScratchBytes(), aligned to 64
  // There is no memory: nothing is added or copied, and messages have their sizes alone. Of a transport that takes such.
  bool sizes_only = false;
};

// How its messages go.
struct RunRoute {
  Transport* transport = nullptr;
  std::span<const int> peers;  // in the transport, by participant
  StreamId stream;
  uint32_t signature = 0;
  CallRecord record = {};
  SentTraffic* traffic = nullptr;  // where its sends are counted; nullptr: nowhere
};

class ScheduleRun {
 public:
  static size_t ScratchBytes(const CollectiveSchedule& schedule, int participant,
                             const UnitArithmetic& arithmetic);

  // Both are borrowed.
  ScheduleRun(const CollectiveSchedule& schedule, int participant,
              const UnitArithmetic& arithmetic);
  ScheduleRun(const ScheduleRun&) = delete;
  ScheduleRun& operator=(const ScheduleRun&) = delete;

  // At first, and once it is done. All are borrowed, the memory of `peers` too.
  void Begin(const RunMemory& memory, const RunRoute& route);

  // Starts what may start and sees what has ended; true if there was anything.
  bool Step();

  bool done() const { return exhausted_ && first_ == next_; }

  // A participant that a message is awaited from, or is to be taken by; -1: none.
  int WaitsFor() const;
  // Of such a one: it has come to that message, which is on its way.
  bool HasMet(int peer) const;

  // The first message whose other half is of another call, or that was retracted; nullptr: none.
  const Transfer* failed() const { return failed_; }

 private:
  enum class OpState : uint8_t { kWaits, kUnderWay, kEnded };

  struct Slot {
    ScheduleOp op;
    Transfer transfer;
    OpState state = OpState::kEnded;
  };

  struct Place {
    std::byte* units = nullptr;
    UnitForm form = UnitForm::kElement;
  };

  Slot& SlotOf(uint32_t index) { return slots_[index % slots_.size()]; }

  bool Fetch();
  bool MayStart(const ScheduleOp& op);
  void Start(Slot* slot);
  void StartMessage(Slot* slot);
  void RunReduce(const ScheduleOp& op);
  void RunCopy(const ScheduleOp& op);
  Place At(const UnitPlace& place) const;

  // A scratch buffer, in the memory for all of them.
  struct Scratch {
    size_t offset_bytes = 0;
    UnitForm form = UnitForm::kElement;
  };

  const CollectiveSchedule& schedule_;
  const int participant_;
  const UnitArithmetic& arithmetic_;
  std::vector<Scratch> scratch_;
  RunMemory memory_;
  RunRoute route_;
  std::unique_ptr<OpStream> ops_;
  std::vector<Slot> slots_;  // ops first_ to next_ - 1, by their number
  bool listed_ = false;      // all ops are in the slots, and stay there
  uint32_t first_ = 0;       // the first that has not ended
  uint32_t next_ = 0;
  bool exhausted_ = false;
  const Transfer* failed_ = nullptr;
};

}  // namespace weft
