// Which protocol a call takes, and why it does not take another one. Decided here and nowhere else: what runs a call, what
// explains it and what predicts its time ask the same functions.
//
//   Selection selection = SelectProtocol(call, tuning, Reach{});     // when the call is prepared
//   if (selection.protocol == Protocol::kAuto)                       // large: it depends on the ranks' buffers
//     selection = SelectProtocol(call, tuning, reach);               // when all ranks have arrived and have said, or ahead
//                                                                    // for what they may say (PreparedCall::by_reach)
//
// The choice is the first of single_rank, inline, slot, direct, single_copy, staged that nothing stands in the way of; a call
// that names one gets that one or an error. Everything that goes into it is the same on all ranks, so is the choice.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "comm/select/protocol.h"
#include "comm/select/tuning.h"

namespace weft {

// In the order of preference: fewer waits first, then fewer bytes moved. What has no other obstacle is staged.
inline constexpr std::array kPreferredProtocols = {Protocol::kSingleRank, Protocol::kInline,
                                                   Protocol::kSlot,       Protocol::kDirect,
                                                   Protocol::kSingleCopy, Protocol::kStaged};

// What all ranks know of a call. The first six are those of the operation's traits.
struct CallFacts {
  bool reduces = false;
  bool root_in = false;     // only the root contributes
  bool root_out = false;    // only the root gets a result
  bool in_blocks = false;   // in has a block for each rank
  bool out_blocks = false;  // out has a block from each rank
  bool prefix = false;      // a rank's result is of the ranks up to it
  uint64_t bytes = 0;       // of the largest block, or of the whole buffer where it has none
  int ranks = 1;
  bool in_place = false;    // a rank's own block need not be copied
  bool shared_out = false;  // the result is the same for all ranks, and in one place
  // What only a choice goes by.
  bool has_data = true;       // false: a barrier
  bool laid_out = false;      // counts and offsets, or lists of buffers
  bool lists = false;         // lists of buffers
  bool local_counts = false;  // ranks know only what they themselves send and receive
  bool has_factor = false;    // its line has room for kFactorOffset bytes only
  bool user_function = false;
  uint64_t packed_bytes = 0;  // the largest contribution, if that is not `bytes` for each block
  Protocol asked = Protocol::kAuto;
};

// The bytes of the largest contribution. Sizes in a Tuning are compared with this, but for single_copy_min_bytes, which is
// compared with a block.
uint64_t ContributionBytes(const CallFacts& call);

// Up to here data travels in the arrival line.
inline uint64_t InlineLimitBytes(const CallFacts& call) {
  return call.has_factor ? kFactorOffset : kInlineBytes;
}

// The member of `tuning` that says from which block on such a call uses single copy; kNever for
// reductions.
uint64_t SingleCopyMinBytes(const Tuning& tuning, const CallFacts& call);

// What ranks have said in their arrivals.
struct Reach {
  bool known = false;   // all of them have
  bool direct = false;  // peers can reach all buffers that they have to
  bool readable =
      false;  // every rank may read its peers' private memory, and nobody hides what it sends
  bool in_slots = false;  // with local counts: all data came with the arrivals
};

// What stands in the way of a protocol.
enum class Obstacle : uint8_t {
  kNone,
  kSeveralRanks,   // single_rank
  kUnknownCounts,  // inline: the slot has the counts
  kLine,           // more data than a line holds
  kSlot,           // more data than a slot holds, or than pays
  kNoData,
  kLists,
  kUnreachable,
  kReduces,
  kUnreadable,
  kTooSmall,
  kNeverPays,
};

// Where `reach` is not known, what only the arrivals can tell stands in nobody's way.
Obstacle ObstacleTo(Protocol protocol, const CallFacts& call, const Tuning& tuning,
                    const Reach& reach);

// The obstacle in words, of a call on a group: "20000 bytes per rank are more than the 48 of an arrival line".
std::string ObstacleText(Obstacle obstacle, const CallFacts& call, const Tuning& tuning);

// How ranks find out that all have arrived.
enum class Meeting : uint8_t {
  kLines,        // each looks at the others' lines
  kCounter,      // they count themselves in at one word of the group's
  kLastArriver,  // and whoever comes last makes the result of all
};

struct Selection {
  Protocol protocol = Protocol::kAuto;  // kAuto: not known yet
  Meeting meeting = Meeting::kLines;
  Obstacle refused = Obstacle::kNone;  // to the protocol that the call names
};

Selection SelectProtocol(const CallFacts& call, const Tuning& tuning, const Reach& reach);

// True if such a call by slots is one that the last rank to arrive reduces for all.
bool LastArriverReduces(const CallFacts& call, const Tuning& tuning);

}  // namespace weft
