// Every rank must come to the same choice without asking, so only what all ranks know goes in. Obstacles are values and not
// a chain of ifs, because the same question is asked three ways: what runs, what was refused, and why not the others.
#include "comm/select/select_protocol.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"

namespace weft {
namespace {

Obstacle ObstacleToSlot(const CallFacts& call, const Tuning& tuning, const Reach& reach) {
  if (call.local_counts) {
    if (call.asked == Protocol::kSlot) return Obstacle::kUnknownCounts;
    return reach.known && !reach.in_slots ? Obstacle::kSlot : Obstacle::kNone;
  }
  const uint64_t limit = call.asked == Protocol::kSlot ? kSlotBytes : tuning.slot_limit_bytes;
  return ContributionBytes(call) > limit ? Obstacle::kSlot : Obstacle::kNone;
}

Obstacle ObstacleToSingleCopy(const CallFacts& call, const Tuning& tuning, const Reach& reach) {
  if (call.reduces) return Obstacle::kReduces;
  if (call.lists) return Obstacle::kLists;
  if (!reach.known) return Obstacle::kNone;
  // Asked for, it takes buffers that peers reach anyhow.
  if (call.asked == Protocol::kSingleCopy && reach.direct) return Obstacle::kNone;
  if (!reach.readable) return Obstacle::kUnreadable;
  if (call.asked == Protocol::kSingleCopy) return Obstacle::kNone;
  const uint64_t least = SingleCopyMinBytes(tuning, call);
  if (call.bytes >= least) return Obstacle::kNone;
  return least == kNever ? Obstacle::kNeverPays : Obstacle::kTooSmall;
}

Meeting MeetingOf(const CallFacts& call, const Tuning& tuning, Protocol protocol) {
  if (tuning.combine == 0 || protocol == Protocol::kSingleRank) return Meeting::kLines;
  const bool by_slots = protocol == Protocol::kSlot && !call.local_counts;
  return by_slots && LastArriverReduces(call, tuning) ? Meeting::kLastArriver : Meeting::kCounter;
}

}  // namespace

const char* ProtocolName(Protocol protocol) {
  constexpr const char* kNames[] = {"auto",   "inline",      "slot",       "direct",
                                    "staged", "single_copy", "single_rank"};
  const auto index = static_cast<size_t>(protocol);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

uint64_t ContributionBytes(const CallFacts& call) {
  if (call.packed_bytes != 0) return call.packed_bytes;
  if (!call.in_blocks) return call.bytes;
  uint64_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(call.bytes, static_cast<uint64_t>(std::max(call.ranks, 1)), &bytes);
  return overflow ? UINT64_MAX : bytes;
}

uint64_t SingleCopyMinBytes(const Tuning& tuning, const CallFacts& call) {
  if (call.reduces) return kNever;
  if (!call.root_in && !call.root_out) return tuning.single_copy_min_bytes;
  const bool broadcast = call.root_in && !call.in_blocks;
  return broadcast ? tuning.single_copy_broadcast_min_bytes : tuning.single_copy_rooted_min_bytes;
}

Obstacle ObstacleTo(Protocol protocol, const CallFacts& call, const Tuning& tuning,
                    const Reach& reach) {
  switch (protocol) {
    case Protocol::kAuto:
      break;
    case Protocol::kSingleRank:
      return call.ranks == 1 && !call.laid_out ? Obstacle::kNone : Obstacle::kSeveralRanks;
    case Protocol::kInline:
      if (call.local_counts) return Obstacle::kUnknownCounts;
      return ContributionBytes(call) > InlineLimitBytes(call) ? Obstacle::kLine : Obstacle::kNone;
    case Protocol::kSlot:
      return ObstacleToSlot(call, tuning, reach);
    case Protocol::kDirect:
      if (!call.has_data) return Obstacle::kNoData;
      if (call.lists) return Obstacle::kLists;
      return reach.known && !reach.direct ? Obstacle::kUnreachable : Obstacle::kNone;
    case Protocol::kSingleCopy:
      return call.has_data ? ObstacleToSingleCopy(call, tuning, reach) : Obstacle::kNoData;
    case Protocol::kStaged:
      return call.has_data ? Obstacle::kNone : Obstacle::kNoData;
  }
  return Obstacle::kNone;
}

std::string ObstacleText(Obstacle obstacle, const CallFacts& call, const Tuning& tuning) {
  const uint64_t bytes = ContributionBytes(call);
  switch (obstacle) {
    case Obstacle::kNone:
      break;
    case Obstacle::kSeveralRanks:
      return "there are other ranks";
    case Obstacle::kUnknownCounts:
      return "ranks know only their own counts before they meet";
    case Obstacle::kLine:
      return fmt::format("{} bytes per rank are more than the {} of an arrival line", bytes,
                         InlineLimitBytes(call));
    case Obstacle::kSlot:
      if (call.local_counts) return "a rank's counts and data do not fit its slot";
      if (call.asked == Protocol::kSlot) {
        return fmt::format("{} bytes per rank are more than the {} of a slot", bytes, kSlotBytes);
      }
      return fmt::format("{} bytes per rank are more than the {} up to which one pass pays", bytes,
                         tuning.slot_limit_bytes);
    case Obstacle::kNoData:
      return "there is no data";
    case Obstacle::kLists:
      return "lists of buffers go through staging";
    case Obstacle::kUnreachable:
      return "a rank's buffers are not in memory that its peers can reach; use weft_mem_alloc or "
             "weft_mem_register on all ranks";
    case Obstacle::kReduces:
      return "a reduction reads its sources itself";
    case Obstacle::kUnreadable:
      return "a rank may not read its peers' memory (process_vm_readv, WEFT_SINGLE_COPY), or reads "
             "what it also overwrites";
    case Obstacle::kTooSmall:
      return fmt::format("blocks of {} bytes are smaller than {}, from where on it pays",
                         call.bytes, SingleCopyMinBytes(tuning, call));
    case Obstacle::kNeverPays:
      return "staging is quicker at every size by what this machine's memory costs";
  }
  return "";
}

Selection SelectProtocol(const CallFacts& call, const Tuning& tuning, const Reach& reach) {
  const auto possible = [&](Protocol protocol) {
    return ObstacleTo(protocol, call, tuning, reach) == Obstacle::kNone;
  };
  const bool single = possible(Protocol::kSingleRank);
  Selection selection;
  if (call.asked != Protocol::kAuto) {
    // One rank has nobody who would have to reach its buffers.
    selection.refused = ObstacleTo(call.asked, call, tuning, single ? Reach{} : reach);
  }
  if (single) {
    selection.protocol = Protocol::kSingleRank;
  } else if (call.asked == Protocol::kAuto) {
    selection.protocol =
        *std::find_if(kPreferredProtocols.begin(), kPreferredProtocols.end(), possible);
  } else if (selection.refused == Obstacle::kNone) {
    selection.protocol = call.asked;
  }
  // A rank does not know the others' buffers, nor with local counts their data, before all have arrived.
  const bool early = reach.known || single || (IsOneShot(selection.protocol) && !call.local_counts);
  if (!early) selection.protocol = Protocol::kAuto;
  selection.meeting = MeetingOf(call, tuning, selection.protocol);
  return selection;
}

bool LastArriverReduces(const CallFacts& call, const Tuning& tuning) {
  return tuning.combine != 0 && call.reduces && !call.in_blocks && !call.root_out && !call.prefix &&
         !call.user_function && !call.shared_out && ContributionBytes(call) > 0;
}

}  // namespace weft
