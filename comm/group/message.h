// One send, receive or probe, as a value.
//
//   Message send{.is_send = true, .in = x, .count = n, .dtype = WEFT_FLOAT32, .peer = 1, .tag = 7};
//   WEFT_RETURN_IF_ERROR(CheckMessage(send, group->size()));
//   WEFT_RETURN_IF_ERROR(group->Run(send));
//
// Thread-safety: pure functions of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/point_to_point.h"

#include "absl/status/status.h"

namespace weft {

struct Message {
  bool is_send = false;
  bool is_probe =
      false;  // as a receive, of whatever count and type, that leaves its message where it is
  const void* in = nullptr;  // of a send
  void* out = nullptr;       // of a receive
  size_t count = 0;
  weft_dtype_t dtype = WEFT_UINT8;
  int peer = 0;      // WEFT_ANY_SOURCE: a receive from whoever sends first
  uint64_t tag = 0;  // WEFT_ANY_TAG: a receive of whatever tag
  // Of a receive or probe that has ended well: get the source, and all that is known of its message. May be nullptr.
  int* sender = nullptr;
  weft_message_info_t* info = nullptr;
  int64_t timeout_ns = 0;  // 0: the group's
};

// What a receive or a probe has found, beside the source.
struct MessageFacts {
  uint64_t tag = 0;
  size_t count = 0;
  weft_dtype_t dtype = WEFT_UINT8;
};

// True if a receive, or a probe, asks for messages of such a source and tag.
inline bool AsksFor(const Message& message, int source, uint64_t tag) {
  return (message.tag == tag || message.tag == WEFT_ANY_TAG) &&
         (message.peer == source || message.peer == WEFT_ANY_SOURCE);
}

void FillInfo(int source, const MessageFacts& facts, weft_message_info_t* info);

// Where its caller wants to know.
inline void TellFacts(const Message& message, int source, const MessageFacts& facts) {
  if (message.sender != nullptr) *message.sender = source;
  if (message.info != nullptr) FillInfo(source, facts, message.info);
}

// "send", "recv" or "probe".
const char* MessageName(const Message& message);

// "send of 4096 float32 with tag 7", "probe with any tag".
std::string MessageText(const Message& message);

// "tag 7" or "any tag".
std::string TagText(uint64_t tag);

// "4096 float32".
std::string ElementsText(size_t count, weft_dtype_t dtype);

// Bytes of the buffer. The message was checked.
size_t MessageBytes(const Message& message);

// INVALID_ARGUMENT with a sentence, or Ok: NULL, unknown dtype, rank outside a group of `size`, more
// bytes than PTRDIFF_MAX. Sentences begin with `call`, or with MessageName() if that is nullptr.
absl::Status CheckMessage(const Message& message, int size, const char* call = nullptr);

// CheckMessage of both as "sendrecv", and that their buffers do not overlap.
absl::Status CheckPair(const Message& send, const Message& recv, int size);

}  // namespace weft
