#include "comm/recorder/message_ring.h"

#include "comm/kernels/dtype.h"

namespace weft {

std::optional<RecordedMessage> MessageRing::Decode(const RecorderWords& words) {
  const auto dtype = static_cast<weft_dtype_t>(words[kWhat] & 0xff);
  const bool known =
      IsDtype(dtype) && words[kState] <= static_cast<uint64_t>(MessageState::kFailed);
  if (words[kNumber] == 0 || !known) return {};
  RecordedMessage message;
  message.number = words[kNumber];
  message.ticks = words[kTicks];
  message.is_send = (words[kWhat] >> kSendShift & 1) != 0;
  message.is_probe = (words[kWhat] >> kProbeShift & 1) != 0;
  message.dtype = dtype;
  message.peer = static_cast<int32_t>(words[kWhat] >> kPeerShift);
  message.source = static_cast<int>(words[kCourse] >> kSourceShift) - 1;
  message.count = words[kCount];
  message.tag = words[kTag];
  message.state = static_cast<MessageState>(words[kState]);
  message.moved_bytes = words[kCourse] & kMovedMask;
  return message;
}

}  // namespace weft
