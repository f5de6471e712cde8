#include "base/seams.h"

namespace weft {

const Seams& SystemSeams() {
  static SystemClock* const clock = new SystemClock;
  static SystemNet* const net = new SystemNet;
  static SystemRandom* const random = new SystemRandom;
  static const Seams seams{clock, net, random};
  return seams;
}

}  // namespace weft
