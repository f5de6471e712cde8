// Operations on buffers that peers can reach: each rank reads its peers' inputs and writes its peers' outputs itself.
//
//   return StartDirect(frame, shared, slot);    // all have arrived, and all buffers can be reached
//   return PollDirect(frame);                   // after kBlocked
//
// An all_reduce of symmetric buffers moves 2PS bytes, with two waits whatever the size. Where outputs are one place
// (shared_result.h) every byte is written once, (P+1)S; and copies into one that all ranks have need
// nobody else's input. Operations that only copy may have private inputs as well, which the kernel reads: the protocol is
// called single_copy then.
//
// In place is safe because slice r of every buffer is read and written by rank r only. A scan is cut in the same way: rank r makes
// slice r of every rank's result, those of higher ranks first, so that an input is written over when all that need it have
// been made. That is P (P + 1) / 2 sources of a slice, each from memory once and then from a cache.
//
// Thread-safety: none; as NodeState.
#pragma once

#include "comm/node/operation_frame.h"
#include "comm/node/shared_result.h"
#include "comm/node/slot_protocol.h"

namespace weft {

// `slot` has the rows of calls with local counts.
OperationResult StartDirect(OperationFrame& frame, const SharedResult& shared,
                            const SlotProtocol& slot);

// Until all ranks are done with each other's buffers.
OperationResult PollDirect(OperationFrame& frame);

}  // namespace weft
