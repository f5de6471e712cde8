// Calls of weft's handlers as XLA makes them, put together by hand.
//
//   XlaFrame frame;
//   frame.Operand(ElementType::kF32, x, {4}).Result(ElementType::kF32, y, {4}).Attribute("group", number).Attribute("op", WEFT_SUM);
//   EXPECT_TRUE(frame.Run(weft_xla_all_reduce).ok());
//
// A test may spoil any part of `call` before Run.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/weft.h"

#include "bindings/xla/ffi.h"

struct XLA_FFI_Error {
  int code = 0;
  std::string message;
};

namespace weft::test {

// What a handler has answered.
struct XlaAnswer {
  int code = 0;  // as absl's
  std::string message;

  bool ok() const { return code == 0; }
};

using XlaHandler = XLA_FFI_Error*(XLA_FFI_CallFrame*);

inline XLA_FFI_Error* CreateXlaError(xla::ErrorArguments* arguments) {
  return new XLA_FFI_Error{arguments->code, arguments->message};
}

class XlaFrame {
 public:
  XlaFrame() = default;
  XlaFrame(const XlaFrame&) = delete;
  XlaFrame& operator=(const XlaFrame&) = delete;

  XlaFrame& Operand(xla::ElementType type, const void* data, std::vector<int64_t> dims) {
    return Add(&operands_, type, const_cast<void*>(data), std::move(dims));
  }

  XlaFrame& Result(xla::ElementType type, void* data, std::vector<int64_t> dims) {
    return Add(&results_, type, data, std::move(dims));
  }

  XlaFrame& Attribute(const char* name, int64_t value) {
    numbers_.push_back(value);
    scalars_.push_back({.type = xla::ElementType::kS64, .value = &numbers_.back()});
    names_.push_back({.data = name, .size = std::strlen(name)});
    name_list_.push_back(&names_.back());
    attribute_kinds_.push_back(xla::kScalarKind);
    attribute_items_.push_back(&scalars_.back());
    return *this;
  }

  // What a handler is given. Made anew by Seal().
  XLA_FFI_CallFrame call = {};
  xla::Api api = {.struct_size = sizeof(xla::Api), .create_error = CreateXlaError};

  XlaFrame& Seal() {
    call = {.struct_size = sizeof(call), .api = &api, .stage = xla::kExecuteStage};
    call.operands = Listed(&operands_);
    call.results = Listed(&results_);
    call.attributes = {.struct_size = sizeof(call.attributes),
                       .size = static_cast<int64_t>(name_list_.size()),
                       .kinds = attribute_kinds_.data(),
                       .names = name_list_.data(),
                       .items = attribute_items_.data()};
    sealed_ = true;
    return *this;
  }

  xla::Buffer& operand(size_t i) { return operands_.buffers[i]; }

  xla::Buffer& result(size_t i) { return results_.buffers[i]; }

  xla::Scalar& scalar(size_t i) { return scalars_[i]; }

  XlaAnswer Run(XlaHandler* handler) {
    if (!sealed_) Seal();
    const std::unique_ptr<XLA_FFI_Error> error(handler(&call));
    return error == nullptr ? XlaAnswer{} : XlaAnswer{error->code, error->message};
  }

  // The result that belongs to the answer.
  weft_result_t RunForResult(XlaHandler* handler) {
    if (Run(handler).ok()) return WEFT_SUCCESS;
    weft_error_info_t info = {};
    info.struct_size = sizeof(info);
    return weft_last_error_info(&info) == WEFT_SUCCESS ? info.result : WEFT_INTERNAL_ERROR;
  }

 private:
  struct Side {
    std::deque<xla::Buffer> buffers;
    std::deque<std::vector<int64_t>> dims;
    std::vector<int> kinds;
    std::vector<void*> items;
  };

  XlaFrame& Add(Side* side, xla::ElementType type, void* data, std::vector<int64_t> dims) {
    side->dims.push_back(std::move(dims));
    side->buffers.push_back({.struct_size = sizeof(xla::Buffer),
                             .type = type,
                             .data = data,
                             .rank = static_cast<int64_t>(side->dims.back().size()),
                             .dims = side->dims.back().data()});
    side->kinds.push_back(xla::kBufferKind);
    side->items.push_back(&side->buffers.back());
    return *this;
  }

  static xla::Buffers Listed(Side* side) {
    return {.struct_size = sizeof(xla::Buffers),
            .size = static_cast<int64_t>(side->items.size()),
            .kinds = side->kinds.data(),
            .items = side->items.data()};
  }

  Side operands_;
  Side results_;
  std::deque<int64_t> numbers_;
  std::deque<xla::Scalar> scalars_;
  std::deque<xla::Span> names_;
  std::vector<xla::Span*> name_list_;
  std::vector<int> attribute_kinds_;
  std::vector<void*> attribute_items_;
  bool sealed_ = false;
};

// Every handler, and whether it takes an operand and gives a result.
struct NamedXlaHandler {
  const char* function;
  XlaHandler* handler;
  bool in;
  bool out;
};

inline constexpr NamedXlaHandler kXlaHandlers[] = {
    {"weft_xla_all_reduce", weft_xla_all_reduce, true, true},
    {"weft_xla_reduce", weft_xla_reduce, true, true},
    {"weft_xla_broadcast", weft_xla_broadcast, true, true},
    {"weft_xla_all_gather", weft_xla_all_gather, true, true},
    {"weft_xla_reduce_scatter", weft_xla_reduce_scatter, true, true},
    {"weft_xla_gather", weft_xla_gather, true, true},
    {"weft_xla_scatter", weft_xla_scatter, true, true},
    {"weft_xla_all_to_all", weft_xla_all_to_all, true, true},
    {"weft_xla_barrier", weft_xla_barrier, false, false},
    {"weft_xla_send", weft_xla_send, true, false},
    {"weft_xla_recv", weft_xla_recv, false, true},
    {"weft_xla_sendrecv", weft_xla_sendrecv, true, true},
};

// Operand, result and attributes that are right for the handler in a group of one, whose number is given. Both arrays have one float.
inline void FillXlaFrame(const NamedXlaHandler& handler, int64_t group, const float* in, float* out,
                         XlaFrame* frame) {
  if (handler.in) frame->Operand(xla::ElementType::kF32, in, {1});
  if (handler.out) frame->Result(xla::ElementType::kF32, out, {1});
  for (const char* name : {"destination", "group", "op", "root", "source", "tag"})
    frame->Attribute(name, std::strcmp(name, "group") == 0 ? group : 0);
}

}  // namespace weft::test
