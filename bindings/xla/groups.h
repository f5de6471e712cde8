// Groups by the numbers that stand for them in compiled programs, which may outlive them and be kept in files: a number never leads to memory that
// was freed.
//
//   WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<ProcessGroup> group, GroupOf("all_reduce", number));
//   group->Run(...);         // also if its handle is destroyed meanwhile, which aborts the call
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft::xla {

// INVALID_ARGUMENT for a number that was never given out, BAD_STATE for one whose group is gone, FORKED for a parent's.
absl::StatusOr<std::shared_ptr<ProcessGroup>> GroupOf(std::string_view call, int64_t number);

}  // namespace weft::xla
