// A kernel's parameters, which are plain structs passed by value, as bytes that do not say which kernel they are for.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

namespace weft::test {

// What is between members becomes zero, as the fake driver takes every word of a parameter for what may be a pointer.
template <typename Parameters>
std::vector<char> ParameterBytes(Parameters parameters) {
  static_assert(std::is_trivially_copyable_v<Parameters>);
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&parameters);
#endif
#endif
  std::vector<char> bytes(sizeof(parameters));
  std::memcpy(bytes.data(), &parameters, sizeof(parameters));
  return bytes;
}

}  // namespace weft::test
