// How ranks that outnumber their CPUs count their arrivals, and reductions by slots that the last rank to arrive makes for all.
//
//   CountArrival(frame, slot);                   // after the arrival was published
//   if (!AllCounted(frame)) return AwaitCounted(frame, peer);
//   CopyLastArriversResult(frame, slot);         // if the call's reduction is the last arriver's
//
// A rank that announces an operation counts itself in, and the last one publishes `arrived`: a rank that waits is
// woken once, not by each peer in turn. If the operation is a reduction by slots, the last one also reduces
// all slots, in group order, into a slot of the segment's, before it publishes: the others, whose data it has
// in its cache, only copy the result. Otherwise each of P ranks would read P slots and reduce them all.
//
// The last rank does so when it announces, though it may still be busy with older operations: all slots are
// written then, and are kept until all have done the operation (I2). It compares the signatures; if there
// is a difference it reduces nothing, and every rank finds the same when it compares them itself.
// The result's slot has the number of the ranks' slots, so what frees those frees it too: a rank that has
// announced the operation has seen that all have done the one before that used them.
//
// A result that several ranks get in one place they write in turn, as without a last arriver (shared_result.h): all know
// from the arrivals that it may be one, and nobody looks at what the last arriver made, if it made anything.
//
// Thread-safety: none; as NodeState.
#pragma once

#include "comm/node/operation_frame.h"
#include "comm/node/slot_protocol.h"

namespace weft {

void CountArrival(const OperationFrame& frame, const SlotProtocol& slot);

bool AllCounted(const OperationFrame& frame);

// `peer` has not arrived, or all have and the last one has not said so. Also for operations that need no result
// of the last one: a rank that finished an operation without `arrived` might be gone before the others have
// been told.
OperationResult AwaitCounted(OperationFrame& frame, int peer);

void CopyLastArriversResult(const OperationFrame& frame, const SlotProtocol& slot);

}  // namespace weft
