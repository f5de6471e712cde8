// The type of a saved tensor's elements: one of weft's, or one that only files have, such as complex numbers, which weft keeps and hands on
// without computing with it.
//
//   std::optional<ElementType> type = ElementType::OfName("C64");     // as safetensors files call it
//   type->bytes();                                                      // 8
//   type->dtype();                                                      // nothing: no program of weft's has such a tensor
//
// Types whose elements are less than a byte, such as F4, are none: a tensor of theirs cannot be cut anywhere.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "weft/types.h"

namespace weft {

class ElementType {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): each of weft's types is one
  constexpr ElementType(weft_dtype_t dtype) : number_(dtype) {}

  // Of a name that safetensors files have for it; nothing for what is no type, or has elements of less than a byte.
  static std::optional<ElementType> OfName(std::string_view name);

  // "F32"; "" for what such files have no name for.
  const char* name() const;
  // Of one element; 0 for what is no type.
  size_t bytes() const;
  // Nothing if only files have it.
  std::optional<weft_dtype_t> dtype() const;

  bool operator==(const ElementType&) const = default;

 private:
  constexpr explicit ElementType(int number) : number_(number) {}

  int number_;  // of weft_dtype_t, or one that no weft_dtype_t has
};

// As of a weft_dtype_t.
inline size_t DtypeSize(ElementType type) {
  return type.bytes();
}

}  // namespace weft
