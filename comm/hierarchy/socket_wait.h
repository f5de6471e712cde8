// How whoever waits for other nodes waits: looks for a while, then sleeps on its sockets, a little at a time.
//
// Thread-safety: constants.
#pragma once

#include <cstdint>

#include "base/wait.h"

namespace weft {

// Before it sleeps: others get its CPU soon, as there may be more ranks than CPUs.
constexpr WaitPolicy kAwake{.spins = 20, .yields = 180};
constexpr int64_t kSocketNapNs = 1'000'000;

}  // namespace weft
