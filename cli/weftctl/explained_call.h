// The call that a command line of weftctl explain asks about.
//
//   WEFT_ASSIGN_OR_RETURN(const Collective call, ReadExplainedCall("all_reduce", "64K", "float32"));
//
// Thread-safety: a pure function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "comm/group/collective.h"

namespace weft {

// A sum where it reduces; it has no buffers. INVALID_ARGUMENT with what is wrong.
absl::StatusOr<Collective> ReadExplainedCall(const std::string& operation, const std::string& bytes,
                                             const std::string& dtype);

}  // namespace weft
