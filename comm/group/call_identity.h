// What all ranks must agree on, exactly: in the arrival of every operation whose data is not in the line itself, where
// the other ranks compare it. And the 32 bits that stand for it in every arrival.
//
//   const CallIdentity mine = IdentityOf(call);
//   const uint32_t signature = SignatureOf(mine, /*in_line=*/false);
//
// A signature alone tells different calls apart only most of the time: of 100,000 calls that differ in their count two
// have the same one. Where the line has room, nothing is left to chance; where it has none, of a call whose data
// fills it, the signature is the call itself, written in 30 bits. Only salted calls and those with a layout or a named
// reduction do not fit there, and a hash stands for them.
//
// Thread-safety: pure functions, values.
#pragma once

#include <cstdint>

#include "comm/group/collective.h"

namespace weft {

struct CallIdentity {
  uint64_t count;           // of values; 0 with local counts, which the ranks' rows agree on
  uint64_t layout;          // hash of counts and offsets, of forms that have them
  uint32_t name;            // of a user's reduction: a hash of its name, and what an element has
  uint32_t signature_salt;  // of Collective::purpose
  int32_t root;
  uint8_t kind;
  uint8_t dtype;      // as in kDtypes
  uint8_t op;         // as in the table of reductions
  uint8_t algorithm;  // that the caller asks for; and kFast

  // In `algorithm`: with WEFT_NUMERICS_FAST.
  static constexpr uint8_t kFast = 0x80;

  friend bool operator==(const CallIdentity&, const CallIdentity&) = default;
};

static_assert(sizeof(CallIdentity) == 32);

CallIdentity IdentityOf(const Collective& call);

// `in_line`: the call's data travels in the arrival line, so that its count is below 64. Signatures of calls in and
// not in the line differ always.
uint32_t SignatureOf(const CallIdentity& call, bool in_line);

}  // namespace weft
