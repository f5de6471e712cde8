// How long a call will take by each protocol, from the model.
//
//   double ns = PredictNs(model, tuning, {.reduces = true, .bytes = 1 << 20, .ranks = 2},
//                         Protocol::kStaged);
//
// A prediction is bytes moved times what a line costs, plus waits times what a wait costs. It is there
// to compare protocols and to explain a choice: between protocols of one call it is right within some
// tens of percent, and it does not know what else the machine does.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/select/machine_model.h"
#include "comm/select/tuning.h"

namespace weft {

// How data may travel; docs/design/003-node.md.
enum class Protocol : uint8_t { kInline, kSlot, kStaged, kDirect, kSingleCopy };
constexpr int kProtocolCount = 5;
// "inline", "slot", "staged", "direct", "single_copy"
const char* ProtocolName(Protocol protocol);

// What a prediction has to know of a call. The first five are those of the operation's traits.
struct CallFacts {
  bool reduces = false;
  bool root_in = false;     // only the root contributes
  bool root_out = false;    // only the root gets a result
  bool in_blocks = false;   // in has a block for each rank
  bool out_blocks = false;  // out has a block from each rank
  uint64_t bytes = 0;       // of a block, or of the whole buffer where it has none
  int ranks = 1;
  bool in_place = false;    // a rank's own block need not be copied
  bool shared_out = false;  // the result is the same for all ranks, and in one place
};

// Payload of an arrival line, which is what inline may have.
constexpr uint64_t kInlineLimitBytes = 48;

// What all ranks know of how large a call is: the bytes of the largest contribution. Sizes in a Tuning
// are compared with this, but for single_copy_min_bytes, which is compared with a block.
uint64_t ContributionBytes(const CallFacts& call);

// What streaming costs once per piece, besides its lines: the fence behind it waits until the last lines
// have left, which takes about as long as two flags.
double StreamFenceNs(const MachineModel& model);

// Nanoseconds of the call on its slowest rank; infinite if the protocol cannot carry it out: more
// bytes than an arrival line or slot holds, a reduction by single copy.
double PredictNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call,
                 Protocol protocol);

// The same of private buffers that are copied into symmetric memory first, each rank's contribution by itself,
// with the result used there: the copies, and then the call on symmetric memory, in place where its kind allows it.
double PredictWithCopyNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call);

// Nanoseconds of a message of private memory from its offer to the end of its receive, while all
// `ranks` ranks of a group exchange such: streamed in chunks (kStaged) or read by the kernel
// (kSingleCopy); infinite for others.
double PredictMessageNs(const MachineModel& model, int ranks, uint64_t bytes, Protocol protocol);

// What the sizes of `tuning` say of the call: direct if the buffers are symmetric and larger than a
// slot, otherwise never direct.
Protocol ProtocolFor(const Tuning& tuning, const CallFacts& call, bool symmetric);

// The member of `tuning` that says from which block on such a call uses single copy; kNever for
// reductions.
uint64_t SingleCopyMinBytes(const Tuning& tuning, const CallFacts& call);

// One size of one operation.
struct ModelRow {
  const char* operation;  // "all_reduce"
  uint64_t bytes;         // of a block or the whole buffer, as in CallFacts
  Protocol private_protocol;
  Protocol symmetric_protocol;
  std::array<double, kProtocolCount> ns;  // by Protocol; infinite as for PredictNs
};

// Predictions for all collectives, 8 B to 64 MiB by factors of 8, with Choose(model, ranks).
std::vector<ModelRow> ModelTable(const MachineModel& model, int ranks);

}  // namespace weft
