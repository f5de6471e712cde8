#include "comm/select/protocol.h"

namespace weft {

const char* ProtocolName(Protocol protocol) {
  switch (protocol) {
    case Protocol::kAuto:
      return "auto";
    case Protocol::kInline:
      return "inline";
    case Protocol::kSlot:
      return "slot";
    case Protocol::kDirect:
      return "direct";
    case Protocol::kStaged:
      return "staged";
    case Protocol::kSingleCopy:
      return "single_copy";
    case Protocol::kSingleRank:
      return "single_rank";
  }
  return "unknown";
}

}  // namespace weft
