// What a control protocol may touch of the world, in one bundle; a simulator hands out its own.
//
// Thread-safety: constant after construction. Everything is borrowed.
#pragma once

#include "base/clock.h"
#include "base/net.h"
#include "base/random.h"

namespace weft {

struct Seams {
  Clock* clock = nullptr;
  Net* net = nullptr;
  Random* random = nullptr;
};

// The real ones; they live until the process ends.
const Seams& SystemSeams();

}  // namespace weft
