// One send or receive, as a value.
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
  const void* in = nullptr;  // of a send
  void* out = nullptr;       // of a receive
  size_t count = 0;
  weft_dtype_t dtype = WEFT_UINT8;
  int peer = 0;  // WEFT_ANY_SOURCE: a receive from whoever sends first
  uint64_t tag = 0;
  int* sender = nullptr;   // of a receive: gets the source when it has ended well; may be nullptr
  int64_t timeout_ns = 0;  // 0: the group's
};

// "send" or "recv".
const char* MessageName(const Message& message);

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
