// A call of a handler, read: what does not fit is INVALID_ARGUMENT, "<name>: ...", and nothing is written but a token.
//
//   const Frame frame("all_reduce", given);
//   WEFT_ASSIGN_OR_RETURN(const Arrays arrays, frame.ReadArrays({.in = true, .out = true}));
//   WEFT_ASSIGN_OR_RETURN(const int64_t op, frame.Number("op"));
//
// Thread-safety: reads a frame, which must live; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/xla/ffi.h"

namespace weft::xla {

// An operand or a result.
struct Array {
  ElementType type = ElementType::kU8;
  void* data = nullptr;
  size_t elements = 0;
};

// Which ones a handler has.
struct Sides {
  bool in = false;
  bool out = false;
};

struct Arrays {
  Array in;
  Array out;
};

class Frame {
 public:
  Frame(const char* name, const XLA_FFI_CallFrame& call) : name_(name), call_(call) {}

  const char* name() const { return name_; }

  // The operand and the result. A token beside them is handed through.
  absl::StatusOr<Arrays> ReadArrays(const Sides& sides) const;

  // An attribute of 32 or 64 bits, with a sign.
  absl::StatusOr<int64_t> Number(std::string_view attribute) const;
  absl::StatusOr<int64_t> NumberOr(std::string_view attribute, int64_t if_absent) const;
  // The same, as an int: a rank, say.
  absl::StatusOr<int> SmallNumber(std::string_view attribute) const;

  // "<name>: <what>".
  absl::Status Bad(std::string_view what) const;

 private:
  absl::StatusOr<Array> ReadArray(const Buffers& buffers, int64_t i, std::string_view what) const;
  absl::StatusOr<size_t> CountElements(const Buffer& buffer, std::string_view what) const;
  absl::Status HandThrough(const Array& from, const Array& to) const;
  absl::StatusOr<int64_t> NumberAt(int64_t i, std::string_view attribute) const;

  const char* const name_;
  const XLA_FFI_CallFrame& call_;
};

// What weft makes of XLA's elements: `per_element` ones of its own for each.
struct Elements {
  weft_dtype_t dtype = WEFT_UINT8;
  size_t per_element = 1;
};

// To be moved: any type with whole bytes.
std::optional<Elements> MovedAs(ElementType type);
// To be combined by `op`, a number of weft's.
std::optional<Elements> CombinedAs(ElementType type, weft_op_t op);

}  // namespace weft::xla
