#include "comm/recorder/call_progress.h"

#include "fmt/format.h"

namespace weft {
namespace {

std::string WhomText(int waited_for) {
  if (waited_for == CallProgress::kAnyOther) return "other ranks";
  return fmt::format("rank {}", waited_for);
}

std::string RoundText(const CallProgress& progress) {
  if (progress.rounds == 0) return "its part";
  return fmt::format("round {} of {}", progress.round, progress.rounds);
}

std::string WaitText(const CallProgress& progress) {
  const std::string whom = WhomText(progress.waited_for);
  const std::string round = RoundText(progress);
  switch (progress.phase) {
    case CallPhase::kEntering:
      return fmt::format("waits for {} to be done with earlier calls", whom);
    case CallPhase::kArriving:
      return fmt::format("waits for {} to arrive", whom);
    case CallPhase::kStaging:
      return fmt::format("waits for {} to have read what was staged before {}", whom, round);
    case CallPhase::kReducing:
      return fmt::format("waits for {} to stage {}", whom, round);
    case CallPhase::kGathering:
      return fmt::format("waits for the part of {} in {}", whom, round);
    case CallPhase::kDirect:
      return fmt::format("waits for {} to be done with the buffers", whom);
    case CallPhase::kTurn:
      return fmt::format("waits for {} to write the shared result first", whom);
    case CallPhase::kWriters:
      return fmt::format("waits for {} to write a part of the shared result", whom);
    case CallPhase::kMessages:
      return fmt::format("waits for {} to send its part, or to take one", whom);
    case CallPhase::kIssued:
      break;
  }
  return "";
}

std::string WorkText(const CallProgress& progress) {
  const std::string round = RoundText(progress);
  switch (progress.phase) {
    case CallPhase::kStaging:
      return fmt::format("stages {}", round);
    case CallPhase::kReducing:
      return fmt::format("reduces {}", round);
    case CallPhase::kGathering:
      return fmt::format("gathers {}", round);
    case CallPhase::kDirect:
      return "works in the buffers";
    case CallPhase::kEntering:
    case CallPhase::kArriving:
    case CallPhase::kTurn:
    case CallPhase::kWriters:
    case CallPhase::kMessages:
    case CallPhase::kIssued:
      break;
  }
  return "";
}

}  // namespace

CallProgress UnpackProgress(uint64_t word, uint64_t cycle) {
  const uint64_t phase = word & kProgressPhaseMask;
  const bool own = word >> kProgressCycleShift == (cycle & kProgressCycleMask);
  const bool shown = phase != static_cast<uint64_t>(CallPhase::kIssued) && phase < kCallPhaseCount;
  if (!own || !shown) return {};
  return {.phase = static_cast<CallPhase>(phase),
          .waited_for = static_cast<int>(word >> kProgressRankShift & kProgressFieldMask) -
                        kProgressRankOffset,
          .round = word >> kProgressRoundShift & kProgressFieldMask,
          .rounds = word >> kProgressRoundsShift & kProgressFieldMask};
}

const char* CallPhaseName(CallPhase phase) {
  switch (phase) {
    case CallPhase::kIssued:
      return "issued";
    case CallPhase::kEntering:
      return "entering";
    case CallPhase::kArriving:
      return "arriving";
    case CallPhase::kStaging:
      return "staging";
    case CallPhase::kReducing:
      return "reducing";
    case CallPhase::kGathering:
      return "gathering";
    case CallPhase::kDirect:
      return "direct";
    case CallPhase::kTurn:
      return "turn";
    case CallPhase::kWriters:
      return "writers";
    case CallPhase::kMessages:
      return "messages";
  }
  return "unknown";
}

std::string DescribeProgress(const CallProgress& progress) {
  return progress.waited_for == CallProgress::kNobody ? WorkText(progress) : WaitText(progress);
}

}  // namespace weft
