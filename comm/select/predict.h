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
#include "comm/select/protocol.h"
#include "comm/select/select_protocol.h"
#include "comm/select/tuning.h"

namespace weft {

// What streaming costs once per piece, besides its lines: the fence behind it waits until the last lines
// have left, which takes about as long as two flags.
double StreamFenceNs(const MachineModel& model);

// Nanoseconds of the call on its slowest rank; infinite if the protocol cannot carry it out: more
// bytes than an arrival line or slot holds, a reduction by single copy.
double PredictNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call,
                 Protocol protocol);

// As above, for private buffers that are copied into symmetric memory first, each rank's contribution by itself,
// with the result used there: the copies, and then the call on symmetric memory, in place where its kind allows it.
double PredictWithCopyNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call);

// Nanoseconds of a message of private memory from its RTS to the end of its receive, while all
// `ranks` ranks of a group exchange such: streamed in chunks (kStaged) or read by the kernel
// (kSingleCopy); infinite for others.
double PredictMessageNs(const MachineModel& model, int ranks, uint64_t bytes, Protocol protocol);

// One size of one operation.
struct ModelRow {
  const char* operation;  // "all_reduce"
  uint64_t bytes;         // of a block or the whole buffer, as in CallFacts
  Protocol private_protocol;
  Protocol symmetric_protocol;
  std::array<double, kRankProtocols.size()> ns;  // as in kRankProtocols; infinite as for PredictNs
};

// Predictions for all collectives, 8 B to 64 MiB by factors of 8, with Choose(model, ranks).
std::vector<ModelRow> ModelTable(const MachineModel& model, int ranks);

}  // namespace weft
