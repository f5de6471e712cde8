#include "comm/group/message.h"

#include <cstring>

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
  if (message.is_send) return "send";
  return message.is_probe ? "probe" : "recv";
}

std::string MessageText(const Message& message) {
  if (message.is_probe) return fmt::format("probe with {}", TagText(message.tag));
  return fmt::format("{} of {} with {}", MessageName(message),
                     ElementsText(message.count, message.dtype), TagText(message.tag));
}

std::string TagText(uint64_t tag) {
  return tag == WEFT_ANY_TAG ? "any tag" : fmt::format("tag {}", tag);
}

// What a newer caller's struct has besides is not known here, and 0.
void FillInfo(int source, const MessageFacts& facts, weft_message_info_t* info) {
  const weft_message_info_t known = {.struct_size = info->struct_size,
                                     .source = source,
                                     .dtype = facts.dtype,
                                     .tag = facts.tag,
                                     .count = facts.count};
  auto* const to = reinterpret_cast<char*>(info);
  if (known.struct_size > sizeof(known))
    std::memset(to + sizeof(known), 0, known.struct_size - sizeof(known));
  std::memcpy(to, &known, sizeof(known));
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
  if (message.is_send && message.tag == WEFT_ANY_TAG)
    return Invalid(name, "no message has the tag WEFT_ANY_TAG; it is for receives and probes");
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
