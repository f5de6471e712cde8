#include "cli/weftrun/stop_requests.h"

namespace weft {

StopRequests::Kind StopRequests::Note(int signal, int64_t now_ns) {
  if (count_ > 0 && now_ns - began_ns_ < kOneRequestNs)
    return signals_.insert(signal).second ? Kind::kAlso : Kind::kRepeat;
  ++count_;
  signal_ = signal;
  began_ns_ = now_ns;
  signals_ = {signal};
  return Kind::kNew;
}

}  // namespace weft
