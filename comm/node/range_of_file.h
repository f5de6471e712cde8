// What a range of a file must be so that peers can map it, too.
//
//   WEFT_ASSIGN_OR_RETURN(FileRanges::Range range, RangeOfFile("", memory, bytes, fd, offset));
//
// Nothing is moved: the caller's mapping stays, peers make their own, and all of them see the same pages. So what has to be known is
// that it really is this file that the caller has mapped, and that peers will be able to map it; both are asked here, where an
// error harms nobody.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/node/file_ranges.h"

namespace weft {

// [memory, memory + bytes), which is to be a shared mapping of `fd` from byte `offset` on; with a descriptor of its own. Pages that
// are not there are taken, within what the control groups below `root` allow (base/cgroup.h). Errors: as
// weft_mem_register_fd (mem.h).
absl::StatusOr<FileRanges::Range> RangeOfFile(const std::string& root, void* memory, size_t bytes,
                                              int fd, uint64_t offset);

}  // namespace weft
