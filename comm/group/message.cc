#include "comm/group/message.h"

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::Status Invalid(const char* operation, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = operation},
                   fmt::format("{}: {}", operation, what));
}

}  // namespace

const char* MessageName(const Message& message) {
  return message.is_send ? "send" : "recv";
}

std::string ElementsText(size_t count, weft_dtype_t dtype) {
  return fmt::format("{} {}", count, DtypeName(dtype));
}

size_t MessageBytes(const Message& message) {
  return message.count * DtypeSize(message.dtype);
}

absl::Status CheckMessage(const Message& message, int size, const char* call) {
  const char* const name = call != nullptr ? call : MessageName(message);
  if (DtypeSize(message.dtype) == 0) {
    return Invalid(name, fmt::format("{} is not a data type", static_cast<int>(message.dtype)));
  }
  const bool any = !message.is_send && message.peer == WEFT_ANY_SOURCE;
  if (!any && (message.peer < 0 || message.peer >= size)) {
    return Invalid(name,
                   fmt::format("{} {} is not one of the ranks 0..{}",
                               message.is_send ? "destination" : "source", message.peer, size - 1));
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(message.count, DtypeSize(message.dtype), &bytes) ||
      bytes > PTRDIFF_MAX) {
    return Invalid(name, fmt::format("{} elements of {} do not fit in memory", message.count,
                                     DtypeName(message.dtype)));
  }
  if (message.count == 0) return absl::OkStatus();
  if (message.is_send && message.in == nullptr) return Invalid(name, "in is NULL");
  if (!message.is_send && message.out == nullptr) return Invalid(name, "out is NULL");
  return absl::OkStatus();
}

absl::Status CheckPair(const Message& send, const Message& recv, int size) {
  WEFT_RETURN_IF_ERROR(CheckMessage(send, size, "sendrecv"));
  WEFT_RETURN_IF_ERROR(CheckMessage(recv, size, "sendrecv"));
  const auto in = reinterpret_cast<uintptr_t>(send.in);
  const auto out = reinterpret_cast<uintptr_t>(recv.out);
  const bool overlap = send.count > 0 && recv.count > 0 && in < out + MessageBytes(recv) &&
                       out < in + MessageBytes(send);
  if (overlap) return Invalid("sendrecv", "in and out overlap; use two buffers");
  return absl::OkStatus();
}

}  // namespace weft
