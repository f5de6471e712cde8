// What the other side has said of a message, and whether the transfer here is the other half of it.
//
// Thread-safety: values.
#pragma once

#include <cstdint>

#include "comm/transport/transfer.h"

namespace weft {

struct SaidMessage {
  uint32_t signature = 0;
  uint64_t bytes = 0;
  CallRecord record = {};

  // A message of a call, all of whose messages have its signature; else each message has its own.
  bool of_call() const { return record != CallRecord{}; }

  bool Agrees(const Transfer& transfer) const {
    return transfer.signature == signature && transfer.bytes == bytes;
  }

  // Ends a transfer, in no list any more, because the other side's call is another one.
  void Refuse(Transfer* transfer) const {
    transfer->other_signature = signature;
    transfer->other_bytes = bytes;
    transfer->other_record = record;
    transfer->SetState(TransferState::kMismatch);
  }
};

}  // namespace weft
