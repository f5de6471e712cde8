// A slow and obvious process group of threads: one mutex, one condition variable, results made by
// whoever completes an operation, with the reductions of tests/comm/kernels/reference.h.
//
// Has all_reduce, broadcast, all_gather and barrier. With `lazy`, an operation that all ranks have
// started is done only when somebody tests or waits: as late as a real group may do it.
// Thread-safety: as ProcessGroup. Callbacks run with the mutex not held.
#pragma once

#include <memory>
#include <vector>

#include "comm/group/process_group.h"

namespace weft {

std::vector<std::shared_ptr<ProcessGroup>> MakeReferenceGroups(int size, int64_t timeout_ns,
                                                               bool lazy);

}  // namespace weft
