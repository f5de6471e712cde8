// Whether bytes are text: what goes into JSON, or into another file's names, is UTF-8 or nothing.
//
//   if (!IsUtf8(name)) return Invalid("name is no UTF-8");
//
// Thread-safety: a pure function.
#pragma once

#include <string_view>

namespace weft {

// As RFC 3629 has it: shortest forms only, no surrogates, up to U+10FFFF. The empty text is.
bool IsUtf8(std::string_view text);

}  // namespace weft
