// Joining text for messages, with std::string_view among the parts.
//
//   StrCat("rank ", rank, " of group ", name)   // name: std::string_view
//
// absl::StrCat alone does not take std::string_view where absl was built for C++14, as Debian's is:
// there absl::string_view is a class of its own. Interfaces of weft say std::string_view.
//   CopyText(record.host, name)                 // char host[64]
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {

inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

inline std::string_view FromAbsl(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

namespace text_internal {
inline absl::string_view Part(const std::string_view& part) {
  return ToAbsl(part);
}

template <typename T>
const T& Part(const T& part) {
  return part;
}
}  // namespace text_internal

// As absl::StrCat.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(text_internal::Part(parts)...);
}

// As much of `text` as fits before a terminating zero; the rest of the array is zeroed.
template <size_t N>
void CopyText(char (&to)[N], std::string_view text) {
  const size_t bytes = text.size() < N ? text.size() : N - 1;
  std::memcpy(to, text.data(), bytes);
  std::memset(to + bytes, 0, N - bytes);
}

}  // namespace weft
