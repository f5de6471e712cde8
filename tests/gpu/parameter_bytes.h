// A kernel's parameters, which are plain structs passed by value, as bytes that do not say which kernel they are for.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

namespace weft::test {

template <typename Parameters>
std::vector<char> ParameterBytes(const Parameters& parameters) {
  static_assert(std::is_trivially_copyable_v<Parameters>);
  std::vector<char> bytes(sizeof(parameters));
  std::memcpy(bytes.data(), &parameters, sizeof(parameters));
  return bytes;
}

}  // namespace weft::test
