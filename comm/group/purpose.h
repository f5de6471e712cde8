// What a call is for, of those that weft makes by itself: the gather of a unit, the reduction of a bucket's
// gradients, the loading of a param; or which call of the user's it is a part of, such as a split.
//
//   const Purpose purpose{.kind = Purpose::Kind::kLoad, .context = 1, .subject = 12};
//   call.purpose = {.signature_salt = SignatureSaltOf(purpose), .record = PackPurpose(purpose), .names = &names};
//   PurposeText(purpose, &names);     // "to load parameter blocks.0.weight"
//
// Calls of one size look alike to a group. The salt is part of the signature, so that ranks which make them for
// different things are told; the record stands in the flight recorder where a caller's tag would stand, so that the
// sentence has what each rank was about. Ranks number units and params alike, so whoever finds a difference says the
// others' in its own names.
//
// Thread-safety: values and pure functions. Names are asked for by whichever thread finds a difference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

struct Purpose {
  // Numbers stand in flight-recorder files: never reused.
  enum class Kind : uint8_t {
    kNone = 0,
    kDeclare = 1,        // comparing what was declared
    kAllocate = 2,       // asking whether all ranks have their memory
    kJoin = 3,           // asking who has data
    kGather = 4,         // subject: unit
    kGatherUpdated = 5,  // subject: bucket
    kReduce = 6,         // subject: bucket
    kOrder = 7,          // comparing the order of calls
    kNorm = 8,           // adding gradient norms
    kParamNorms = 9,     // adding the norms of params
    kNonfinite = 10,     // finding the gradient that is not finite
    kUpdate = 11,        // comparing what an update was asked for
    kLoad = 12,          // subject: param
    kRead = 13,          // subject: param
    kBroadcast = 14,
    kCompare = 15,  // comparing copies
    kSamples = 16,
    kReport = 17,
    // Parts of calls of the user's that are no collectives, but whose ranks have something to tell each other: such a call is
    // what the user knows, so messages show it in place of its parts.
    kSplit = 18,
    kCreateFromRanks = 19,
    kAllocShared = 20,
    kFreeShared = 21,
    kRefusal =
        22,  // subject: the OpKind that was refused; step: counts the rank's refusals (refusal.h)
    kNormSum = 23,
  };
  static constexpr int kKindCount = 24;

  Kind kind = Kind::kNone;
  uint64_t context = 0;  // number of the shard context on the group, from 1; 0: not known yet
  int subject = -1;      // -1: there is none
  uint64_t round = 0;    // compared only: ranks that do the same thing have the same here
  uint64_t step = 0;     // told only, like the micro-batch; from 1; 0: outside of steps
  int microbatch = -1;   // from 0; -1: outside of micro-batches
};

// Who knows what subjects are called. Constant while a call has it.
class PurposeNames {
 public:
  virtual ~PurposeNames() = default;

  // "unit block3", empty if it has no subject; nothing if it is of another context.
  virtual std::optional<std::string> SubjectOf(const Purpose& purpose) const = 0;
};

// As a call has it.
struct CallPurpose {
  uint32_t signature_salt = 0;
  uint64_t record = 0;                  // 0: the call is the caller's own
  const PurposeNames* names = nullptr;  // outlives the operation; may be nullptr
};

// 32 bits of all that ranks must agree on; never 0.
uint32_t SignatureSaltOf(const Purpose& purpose);

// All but the round in 64 bits, never 0 but for kNone; numbers that are too large wrap.
uint64_t PackPurpose(const Purpose& purpose);
// Any number may come from another process: what is not known is kNone.
Purpose UnpackPurpose(uint64_t record);

// Whether a call with this record tells the others that its rank cannot make the call (refusal.h).
bool IsRefusal(uint64_t record);

// The call that a call of this purpose is a part of, or stands for: "split", "mem_alloc_shared", the one that was refused; nullptr if it is
// none.
const char* WholeCallName(const Purpose& purpose);

// "to reduce the gradients of unit block3 (step 4, micro-batch 2)"; empty for kNone and for parts of calls. What `names` does not know,
// as nullptr does not, is told by numbers.
std::string PurposeText(const Purpose& purpose, const PurposeNames* names);

}  // namespace weft
